"""Texts become vectors once: equal texts, and the same file next time, are not embedded again."""

import os
import socket
import sys
import warnings

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.rows.record_files import Wanted, read_records

TEXTS = ["a", "bb", "a", "ccc", "bb"]
MODULE = """
import numpy as np
import torch

calls = []
not_a_function = 3

def lengths(texts):
    calls.append(list(texts))
    return np.array([[len(text), 1.0] for text in texts])

is_over = False

def interrupted(texts):
    if "ccc" in texts and not is_over:
        raise KeyboardInterrupt
    return lengths(texts)

def as_tensor(texts):
    rows = [[len(text), 1.0] for text in texts]
    return torch.tensor(rows, dtype=torch.bfloat16, requires_grad=True)

def as_lists(texts):
    return [[len(text), 1] for text in texts]

def one_too_few(texts):
    return np.ones((len(texts) - 1, 2))

def flat(texts):
    return np.ones(len(texts))

def words(texts):
    return texts

def ragged(texts):
    return [[1.0] * len(text) for text in texts]

def growing(texts):
    return np.ones((len(texts), len(texts[0])))

def not_finite(texts):
    return np.array([[np.nan if text == "ccc" else 1.0] for text in texts])
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The name of a fresh module in the current folder."""
    monkeypatch.chdir(tmp_path)
    name = f"own_model_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    yield name
    sys.modules.pop(name, None)


def calls_of(model):
    return sys.modules[model].calls


def test_a_function_in_the_current_folder_embeds(model, tmp_path):
    before = list(sys.path)
    for function in ("lengths", "as_tensor", "as_lists"):
        vectors = tm.embed(TEXTS, f"{model}:{function}", cache=tmp_path / "train.jsonl.embeddings")
        assert vectors.dtype == np.float32
        np.testing.assert_array_equal(vectors, [[1, 1], [2, 1], [1, 1], [3, 1], [2, 1]])
    assert sys.path == before


def test_equal_texts_are_embedded_once_in_batches(model, tmp_path, capfd):
    tm.embed(TEXTS, f"{model}:lengths", cache=tmp_path, batch_size=2, progress=True)
    assert calls_of(model) == [["a", "bb"], ["ccc"]]
    assert "2 of 3 texts embedded" in capfd.readouterr().err


def test_vectors_are_kept_beside_the_file_and_used_again(model, tmp_path):
    beside = tmp_path / "train.jsonl.embeddings"
    first = tm.embed(TEXTS, f"{model}:lengths", cache=beside)
    again = tm.embed(TEXTS, f"{model}:lengths", cache=beside)
    np.testing.assert_array_equal(first, again)
    assert len(calls_of(model)) == 1
    (kept,) = (tmp_path / "train.jsonl.embeddings").iterdir()
    np.testing.assert_array_equal(np.load(kept), [[1, 1], [2, 1], [3, 1]])


def test_other_texts_another_order_or_another_model_are_embedded_anew(model, tmp_path):
    beside = tmp_path / "train.jsonl.embeddings"
    tm.embed(["a", "bb"], f"{model}:lengths", cache=beside)
    tm.embed(["bb", "a"], f"{model}:lengths", cache=beside)
    tm.embed(["ab", "b"], f"{model}:lengths", cache=beside)
    assert len(calls_of(model)) == 3
    changed = tmp_path / f"{model}.py"
    changed.write_text(MODULE.replace("1.0]", "2.0]"))
    os.utime(changed, (0, 0))  # Python takes a file of the same size and second for the same
    del sys.modules[model]
    vectors = tm.embed(["a", "bb"], f"{model}:lengths", cache=beside)
    np.testing.assert_array_equal(vectors, [[1, 2], [2, 2]])


def test_what_was_embedded_before_an_interruption_is_not_embedded_again(model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        tm.embed(TEXTS, f"{model}:interrupted", cache=tmp_path / "kept", batch_size=1)
    sys.modules[model].is_over = True
    vectors = tm.embed(TEXTS, f"{model}:interrupted", cache=tmp_path / "kept")
    assert calls_of(model) == [["a"], ["bb"], ["ccc"]]
    np.testing.assert_array_equal(vectors[:, 0], [1, 2, 1, 3, 2])


def test_texts_of_any_kind_are_embedded_and_kept_for_the_next_call(model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    pandas = pytest.importorskip("pandas")
    for texts in (TEXTS, np.array(TEXTS), pandas.Series(TEXTS, index=range(9, 4, -1))):
        vectors = tm.embed(texts, f"{model}:lengths")
        np.testing.assert_array_equal(vectors[:, 0], [1, 2, 1, 3, 2])
    assert len(calls_of(model)) == 1 and (tmp_path / "home" / "tellmost").is_dir()
    tm.embed(TEXTS, f"{model}:lengths", cache=tmp_path / "own")
    assert len(calls_of(model)) == 2 and (tmp_path / "own").is_dir()


@pytest.mark.parametrize("damage", ["cut short", "a changed byte", "another file", "empty"])
def test_a_damaged_file_is_made_anew(damage, model, tmp_path):
    beside = tmp_path / "train.jsonl.embeddings"
    tm.embed(TEXTS, f"{model}:lengths", cache=beside)
    (kept,) = (tmp_path / "train.jsonl.embeddings").iterdir()
    good = kept.read_bytes()
    changed = bytearray(good)
    changed[-20] ^= 1
    kept.write_bytes(
        {"cut short": good[:-20], "a changed byte": changed, "another file": b"x", "empty": b""}[
            damage
        ]
    )
    vectors = tm.embed(TEXTS, f"{model}:lengths", cache=beside)
    np.testing.assert_array_equal(vectors[:, 0], [1, 2, 1, 3, 2])
    assert len(calls_of(model)) == 2
    assert kept.read_bytes() == good


def test_a_folder_that_cannot_be_written_is_no_error(model, tmp_path):
    (tmp_path / "train.jsonl.embeddings").write_text("a file is in the way")
    with pytest.warns(UserWarning, match="could not be kept") as caught:
        vectors = tm.embed(TEXTS, f"{model}:lengths", cache=tmp_path / "train.jsonl.embeddings")
    assert len(caught) == 1
    np.testing.assert_array_equal(vectors[:, 0], [1, 2, 1, 3, 2])


FAILURES = {
    "one_too_few": (ValueError, r"\(3, d\) for 3 of them; got shape \(2, 2\)"),
    "flat": (ValueError, r"\(3, d\) for 3 of them; got shape \(3,\)"),
    "words": (TypeError, "must return a numeric array or tensor"),
    "ragged": (TypeError, "must return a numeric array or tensor"),
    "not_finite": (ValueError, "gave a NaN or an infinity for text 3"),
    "missing": (AttributeError, "has no 'missing'"),
    "not_a_function": (TypeError, "must be a function that takes a list of strings; it is int"),
}


@pytest.mark.parametrize("function", FAILURES)
def test_a_function_that_does_not_fit_says_why(function, model, tmp_path):
    kind, message = FAILURES[function]
    with pytest.raises(kind, match=message) as caught:
        tm.embed(TEXTS, f"{model}:{function}", cache=tmp_path / "train.jsonl.embeddings")
    assert str(caught.value).startswith("embed: ") and "\n" not in str(caught.value)
    assert not (tmp_path / "train.jsonl.embeddings").exists()


def test_vectors_of_several_lengths_are_refused(model, tmp_path):
    with pytest.raises(ValueError, match="the first had 1, that of text 1 has 2"):
        tm.embed(TEXTS, f"{model}:growing", cache=tmp_path / "x.jsonl", batch_size=1)


def test_a_module_that_cannot_be_imported_says_why(model, tmp_path):
    with pytest.raises(ImportError, match="no module 'no_such_module', neither in the current"):
        tm.embed(TEXTS, "no_such_module:embed", cache=tmp_path / "x")
    (tmp_path / "broken_model.py").write_text("import no_such_dependency\n")
    with pytest.raises(
        ImportError, match=r"importing broken_model failed: ModuleNotFoundError: .*no_su"
    ):
        tm.embed(TEXTS, "broken_model:embed", cache=tmp_path / "x")


def test_an_unknown_model_lists_the_choices(tmp_path):
    with pytest.raises(ValueError, match=r"embed must be the id of .* the folder .*; got 'mpnet'"):
        tm.embed(TEXTS, "mpnet", cache=tmp_path / "x")
    with pytest.raises(ValueError, match=r"neither modules.json nor config.json"):
        tm.embed(TEXTS, str(tmp_path), cache=tmp_path / "x")


def test_a_missing_package_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tellmost.rows.embedding_models.find_spec", lambda name: None)
    (tmp_path / "config.json").touch()
    for model in ("all-minilm", str(tmp_path)):
        with pytest.raises(ImportError, match=r"transformers; pip install 'tellmost\[embed\]'"):
            tm.embed(TEXTS, model, cache=tmp_path / "x")


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **options):
        raise OSError("there is no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("is_begun", [False, True], ids=["nothing kept", "fetched in part"])
def test_a_model_that_cannot_be_fetched_says_that_a_folder_will_do(
    is_begun, no_network, tmp_path, monkeypatch
):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    if is_begun:
        keep_in_cache(tmp_path, "models--nobody--nothing", "modules.json")
    message = r"no folder 'nobody/nothing', .* from the Hugging Face Hub: .* give its folder\."
    with pytest.raises(ValueError, match=message):
        tm.embed(TEXTS, "nobody/nothing", cache=tmp_path / "x")


def keep_in_cache(home, model, name):
    (home / model / "refs").mkdir(parents=True)
    (home / model / "refs" / "main").write_text("c0ffee")
    (home / model / "snapshots" / "c0ffee").mkdir(parents=True)
    (home / model / "snapshots" / "c0ffee" / name).write_text("[]")


def test_a_model_of_the_hub_is_fetched_once(tmp_path, monkeypatch):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    loaded = []

    class Fetched:
        def __init__(self, name, *, device, local_files_only):
            loaded.append((name, local_files_only))
            if not local_files_only:
                keep_in_cache(tmp_path, "models--some--model", "config.json")

        def encode(self, texts, **options):
            return np.ones((len(texts), 3))

    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", Fetched)
    monkeypatch.setattr("tellmost.rows.embedding_models.check_on_hub", lambda name: None)
    for texts in (["a"], ["a"], ["b"]):
        tm.embed(texts, "some/model", cache=tmp_path / "x")
    assert loaded == [("some/model", False), ("some/model", True)]  # the second is kept


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ("", ValueError),
        (" ", ValueError),
        ("\ud800", ValueError),
        (3, TypeError),
        (None, TypeError),
    ],
)
def test_a_text_that_is_none_names_its_line(bad, kind, model, tmp_path):
    import json

    lines = [json.dumps({"id": f"d{n}", "text": text}) for n, text in enumerate(["a", bad])]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    with pytest.raises(kind, match=r"^pool: train.jsonl, line 2 \(id 'd1'\): "):
        read_records(
            tmp_path / "train.jsonl", wanted=Wanted(text_field="text", embed=f"{model}:lengths")
        )


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_file_of_texts_is_embedded_as_it_is_read(suffix, model, tmp_path):
    path = tmp_path / f"train.{suffix}"
    if suffix == "parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table({"text": TEXTS}), path)
    elif suffix == "csv":
        path.write_text("\n".join(["text,n", *(f"{text},7" for text in TEXTS)]))
    else:
        path.write_text("\n".join(f'{{"text": "{text}"}}' for text in TEXTS))
    records = read_records(path, wanted=Wanted(text_field="text", embed=f"{model}:lengths"))
    np.testing.assert_array_equal(records.vectors[:, 0], [1, 2, 1, 3, 2])
    assert records.items() == TEXTS
    assert (tmp_path / f"train.{suffix}.embeddings").is_dir()


@pytest.mark.parametrize("by_folder", [True, False], ids=["folder", "cache"])
def test_minilm_puts_paraphrases_near_each_other_without_network(
    by_folder, minilm_home, no_network, tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(minilm_home))
    before = {key: value for key, value in os.environ.items() if key.startswith(("HF_", "TRANSF"))}
    model = str(next(minilm_home.glob("*/snapshots/*"))) if by_folder else "all-minilm"
    texts = [
        "My bank card was stolen.",
        "Somebody took my credit card.",
        "What is the exchange rate for euros?",
        "How many euros do I get for a dollar?",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        vectors = tm.embed(texts, model, cache=tmp_path / "x.jsonl", device="cpu")
    assert vectors.shape == (4, 384) and vectors.dtype == np.float32
    cosine = vectors @ vectors.T
    paraphrases, others = [cosine[0, 1], cosine[2, 3]], cosine[:2, 2:]
    assert min(paraphrases) > others.max() + 0.1
    after = {key: value for key, value in os.environ.items() if key.startswith(("HF_", "TRANSF"))}
    assert after == before
    if by_folder:
        long = [*texts, "card " * 300, "card " * 200, "card " * 290]
        with pytest.warns(UserWarning, match="2 of 7 texts are longer than what"):
            tm.embed(long, model, cache=tmp_path, device="cpu")
    assert torch.is_grad_enabled()
