"""Paths of any format are pools of the library, alone, as several, and with texts to embed."""

import json

import numpy as np
import pytest

import tellmost as tm
from files_of_points import ARRAYS, IDS, ROWS, D, N, write_csv, write_jsonl, write_npz
from tellmost.rows.record_files import read_records

TARGETS = np.random.default_rng(1).normal(size=(2, D))


def as_parts(path, lines, header):
    """The lines of a text file in three, each with the header."""
    folder = path.parent / "parts"
    folder.mkdir()
    for part in range(3):
        (folder / f"{part}{path.suffix}").write_text("".join([*header, *lines[part::3]]))
    return [row for part in range(3) for row in range(len(lines))[part::3]]


@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_npz])
def test_the_library_takes_what_the_commands_take(write, tmp_path):
    """A path of any format gives the picks of the array, with the ids that the file has."""
    path = write(tmp_path)
    chosen = tm.select(path, TARGETS, 4)
    np.testing.assert_array_equal(chosen.indices, tm.select(ROWS, TARGETS, 4).indices)
    if write is not write_npz:
        assert chosen.ids.tolist() == [IDS[row] for row in chosen.indices]
        lines = path.read_text().splitlines(keepends=True)
        header = lines[:1] if write is write_csv else []
        order = as_parts(path, lines[len(header) :], header)
        expected = tm.select(ROWS[order], TARGETS, 4)
        several = tm.select(tmp_path / "parts", TARGETS, 4)
        np.testing.assert_array_equal(several.indices, expected.indices)
        assert several.ids.tolist() == [IDS[order[row]] for row in expected.indices]
    assert tm.check(path).to_dict() == tm.check(ROWS).to_dict()


def test_a_folder_of_json_alone_is_a_pool(tmp_path):
    folder = tmp_path / "pool"
    folder.mkdir()
    records = [{"id": i, "emb": row} for i, row in zip(IDS, ROWS.tolist(), strict=True)]
    (folder / "a.json").write_text(json.dumps(records[:5]))
    (folder / "b.json").write_text(json.dumps(records[5:]))
    chosen = tm.select(folder, TARGETS, 4)
    np.testing.assert_array_equal(chosen.indices, tm.select(ROWS, TARGETS, 4).indices)
    (folder / "notes.md").write_text("The others are not rows, perhaps.")
    with pytest.raises(FileNotFoundError, match=r"or \.json alone; there are none"):
        tm.select(folder, TARGETS, 4)


def test_the_library_matches_the_columns_of_targets_by_name(tmp_path):
    write_csv(tmp_path)
    lines = (tmp_path / "pool.csv").read_text().splitlines()
    table = [line.split(",") for line in lines]
    turned = [",".join([row[0], *reversed(row[1:])]) for row in table[:4]]
    (tmp_path / "targets.csv").write_text("\n".join(turned) + "\n")
    chosen = tm.select(tmp_path / "pool.csv", tmp_path / "targets.csv", 3)
    np.testing.assert_array_equal(chosen.indices, tm.select(ROWS, ROWS[:3], 3).indices)
    names = table[0][1:]
    some = tm.select(tmp_path / "pool.csv", tmp_path / "targets.csv", 3, column=names[:2])
    np.testing.assert_array_equal(some.indices, tm.select(ROWS[:, :2], ROWS[:3, :2], 3).indices)
    (tmp_path / "targets.csv").write_text("x0,other\n1,2\n")
    with pytest.raises(ValueError, match=r"targets.csv has no column 'x1'; it has x0, other"):
        tm.select(tmp_path / "pool.csv", tmp_path / "targets.csv", 3)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=names)
    assert tm.near(frame, frame[names[::-1]][:3]).tolist() == tm.near(ROWS, ROWS[:3]).tolist()
    found, plain = tm.Retriever(frame), tm.Retriever(ROWS)
    found = found.search(frame[names[::-1]][:3], 2)[1]
    np.testing.assert_array_equal(found, plain.search(ROWS[:3], 2)[1])
    chosen = tm.select(frame, frame[names[::-1]][:3], 3)
    np.testing.assert_array_equal(chosen.indices, tm.select(ROWS, ROWS[:3], 3).indices)


def test_the_library_embeds_texts_of_files(tmp_path, monkeypatch):
    (tmp_path / "numbers_of.py").write_text(
        "import numpy as np\n"
        "def embed(texts):\n"
        "    return np.array([[len(t), t.count('e'), t.count('o')] for t in texts], float)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELLMOST_CACHE", str(tmp_path / "cache"))
    texts = [f"text {'e' * (row % 5)}{'o' * (row % 7)}" for row in range(N)]
    path = write_jsonl(tmp_path, text=texts)
    (tmp_path / "q.csv").write_text("text\nteeeext oo\ntoo\n")
    named = {"text": "text", "embed": "numbers_of:embed"}
    chosen = tm.select(path, "q.csv", 3, id_column="id", **named)
    expected = tm.select(texts, ["teeeext oo", "too"], 3, embed="numbers_of:embed")
    np.testing.assert_array_equal(chosen.indices, expected.indices)
    assert chosen.ids.tolist() == [IDS[row] for row in expected.indices]


def test_files_that_do_not_go_together_are_refused(tmp_path):
    write_csv(tmp_path)
    write_csv(tmp_path, ids=None, name="plain.csv")
    ARRAYS["npy"](tmp_path)
    (tmp_path / "b.csv").write_text("id,x0\nz,1\n")
    for name, other, message in (
        ("plain.csv", "pool.npy", "pool.npy is streamed, plain.csv is not"),
        ("pool.csv", "pool.csv", "pool.csv and 1 more: ids must differ; line 2 of pool.csv and"),
        ("pool.csv", "plain.csv", "plain.csv has no column 'id'"),
        ("pool.csv", "b.csv", "all files must have the same number of features"),
    ):
        with pytest.raises(ValueError, match=message):
            read_records([tmp_path / name, tmp_path / other])


def test_targets_may_be_a_list_of_files(tmp_path):
    paths = [tmp_path / "a.npy", str(tmp_path / "b.npy")]
    for path, rows in zip(paths, np.array_split(TARGETS, 2), strict=True):
        np.save(path, rows)
    chosen = tm.select(ROWS, paths, 4)
    np.testing.assert_array_equal(chosen.indices, tm.select(ROWS, TARGETS, 4).indices)
    pytest.importorskip("plotly")
    chosen.report(tmp_path / "page.html", ROWS, paths)
    assert tm.near(ROWS, [str(path) for path in paths], -1.0).all()


def test_a_text_without_a_model_is_refused_with_the_way_out():
    with pytest.raises(FileNotFoundError, match="Texts need a model: embed='all-minilm'"):
        tm.select(["how do I", "where is"], TARGETS, 1)
