"""The same seed, the same sequence; a saved optimizer goes on as the one that was saved."""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.posterior.gp import Data
from tellmost.running import writing
from tellmost.running.writing import locked
from tellmost.safebo import CoordinateLines, Lipschitz, RandomLines, SobolSet

GP = tm.GP(tm.kernels.Matern(2.5, 0.7), noise_std=0.1)
OTHER = tm.GP(tm.kernels.Matern(2.5, 1.0), noise_std=0.2)
DOMAIN = np.random.default_rng(0).uniform(0, 1, (30, 2))
SEED = int(np.abs(DOMAIN - 0.4).sum(axis=1).argmin())
BOX = tm.Box([0, 0], [1, 1], names=["kp", "kd"])


def value(x) -> float:
    return float(1.5 - 2 * ((np.asarray(x) - 0.4) ** 2).sum())


def make(domain=DOMAIN, **changed) -> tm.SafeOptimizer:
    arguments = {
        "objective": GP,
        "constraints": {"g": tm.Constraint(OTHER, at_least=0.0)},
        "safe_seed": [[0.4, 0.4]] if isinstance(domain, tm.Box) else [SEED],
        "beta": 1.5,
    }
    return tm.SafeOptimizer(domain, **{**arguments, **changed})


def go(optimizer: tm.SafeOptimizer, rounds: int) -> list[list[float]]:
    asked = []
    for _ in range(rounds):
        query = optimizer.ask()
        asked.append(query.x.tolist())
        optimizer.tell(query, value(query.x), {"g": value(query.x)})
    return asked


KINDS = {
    "finite": {"domain": DOMAIN},
    "drawn targets": {"domain": DOMAIN, "targets": tm.targets.ThompsonMaximizers(3)},
    "random": {"domain": DOMAIN, "rule": "random"},
    "sobol": {"domain": BOX, "search": SobolSet(64)},
    "axes": {"domain": BOX, "search": CoordinateLines(40)},
    "lines": {"domain": BOX, "search": RandomLines(40), "confidence": 0.9, "beta": None},
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_same_seed_gives_the_same_sequence_and_a_loaded_optimizer_goes_on(kind, tmp_path):
    first, second = make(**KINDS[kind]), make(**KINDS[kind])
    asked = go(first, 4)
    assert asked == go(second, 4) and len({tuple(x) for x in asked}) > 2
    first.save(tmp_path / "state.json")
    third = make(**KINDS[kind]).load(tmp_path / "state.json")
    assert go(first, 3) == go(third, 3) == go(second, 3)
    assert first.best.x.tolist() == third.best.x.tolist()
    assert json.dumps(first.state_dict()) == json.dumps(third.state_dict())


def test_asking_changes_nothing_about_what_is_asked_next():
    optimizer = make()
    go(optimizer, 3)
    assert optimizer.ask().index == optimizer.ask().index
    box = make(BOX, search=SobolSet(64))
    go(box, 3)
    assert box.ask().x.tolist() == box.ask().x.tolist()


def test_a_violation_is_saved_and_so_are_failures_and_partial_tells():
    optimizer = make(beta=None, confidence=0.9)
    optimizer.tell(row=SEED, objective=1.3, constraints={"g": 1.5})
    optimizer.tell(row=5, failed=True)
    optimizer.tell(row=7, constraints={"g": -0.5}, noise_std=0.05)
    again = make(beta=None, confidence=0.9)
    again.load_state_dict(optimizer.state_dict())
    assert again.is_halted and [event.kind for event in again.log] == ["failed", "violation"]
    assert again.history[2].noise_std == {"g": 0.05}
    for one in (optimizer, again):
        one.acknowledge()
    assert optimizer.ask().index == again.ask().index
    assert again.log[-1].kind == "acknowledged"


def test_after_a_refit_a_loaded_optimizer_asks_the_same():
    pytest.importorskip("botorch")
    optimizer = make(beta=None, confidence=0.9)
    go(optimizer, 6)
    optimizer.refit()
    go(optimizer, 1)
    again = make(beta=None, confidence=0.9)
    again.load_state_dict(json.loads(json.dumps(optimizer.state_dict())))
    assert again.ask().index == optimizer.ask().index
    np.testing.assert_array_equal(again.bounds("g")[0], optimizer.bounds("g")[0])


DATA = Data(*(torch.tensor(part, dtype=torch.float64) for part in ([[0.1, 0.2]], [1.0], [0.1])))
OTHERS = {
    "domain": {"domain": DOMAIN[::-1].copy()},
    "objective": {"objective": OTHER},
    "constraints": {"constraints": {"g": tm.Constraint(OTHER, at_least=0.1)}},
    "outputs": {"constraints": {"g": tm.Constraint(GP, at_least=0.0)}, "objective": GP},
    "safe_seed": {"safe_seed": [SEED, 3]},
    "confidence": {"beta": 1.6},
    "rule": {"rule": "itl"},
    "targets": {"targets": tm.targets.ThompsonMaximizers(2)},
    "max_step": {"max_step": 0.4},
    "direction": {"direction": "minimize"},
    "noise_std": {"noise_std": {"objective": np.full(30, 0.2)}},
    "seed": {"seed": 1},
    "on_violation": {"on_violation": "continue"},
    "on_miscalibration": {"on_miscalibration": "log"},
    "suspect_z": {"suspect_z": 5.0},
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_the_state_of_another_optimizer_is_refused_and_nothing_changes(name):
    mine, other = make(), make(**OTHERS[name])
    other.tell(row=SEED, objective=0.1, constraints={"g": 0.1})
    before = json.dumps(mine.state_dict())
    with pytest.raises(ValueError, match="the state is of another optimizer"):
        mine.load_state_dict(other.state_dict())
    assert json.dumps(mine.state_dict()) == before


def test_other_data_of_a_prior_make_another_optimizer():
    with_data = tm.GP(GP.kernel, noise_std=0.1, data=DATA)
    moved = Data(DATA.points + 0.1, DATA.y, DATA.noise_variance)
    state = make(objective=with_data).state_dict()
    make(objective=with_data).load_state_dict(state)
    other = make(objective=tm.GP(GP.kernel, noise_std=0.1, data=moved))
    with pytest.raises(ValueError, match="its objective is"):
        other.load_state_dict(state)


def test_a_slope_and_a_shared_prior_tell_optimizers_apart():
    shared = {"g": tm.Constraint(GP, at_least=0.0)}
    alike = {"g": tm.Constraint(tm.GP(GP.kernel, noise_std=0.1), at_least=0.0)}
    steep = {"g": tm.Constraint(GP, at_least=0.0, lipschitz=Lipschitz(2.0, 1))}
    state = make(constraints=shared).state_dict()
    for other in (alike, steep):
        with pytest.raises(ValueError, match="another optimizer"):
            make(constraints=other).load_state_dict(state)


def test_a_damaged_state_is_refused_before_anything_is_changed():
    mine, state = make(), make().state_dict()
    mine.tell(row=SEED, objective=0.1, constraints={"g": 0.1})
    before = json.dumps(mine.state_dict())
    del state["journal"]
    with pytest.raises(ValueError, match="the state is damaged, and nothing of it was taken over"):
        mine.load_state_dict(state)
    assert json.dumps(mine.state_dict()) == before


def test_changes_that_are_named_are_allowed_judged_anew_and_logged(tmp_path):
    first = make(beta=2.0)
    go(first, 3)
    first.save(tmp_path / "state.json")
    limits = {"g": tm.Constraint(OTHER, at_least=0.1)}
    other = make(beta=3.0, constraints=limits, safe_seed=[SEED, 3])
    with pytest.raises(ValueError, match="the state is of another optimizer: its safe_seed"):
        other.load(tmp_path / "state.json", changed={"beta", "limits"})
    with pytest.raises(ValueError, match=r"changed may name 'beta', .*; got rule"):
        other.load(tmp_path / "state.json", changed={"rule"})
    other.load(tmp_path / "state.json", changed={"beta", "limits", "seeds"})
    assert len(other.history) == 3 and other.ask().index is not None
    texts = [event.text for event in other.log if event.kind == "changed"]
    assert [text.split(":")[0] for text in texts] == ["confidence", "limits", "safe_seed"]
    other.tell(first.ask(), 1.0, {"g": 1.0})  # a query from before the change


def test_a_limit_of_zero_and_of_another_side_are_told_apart():
    state = make(constraints={"g": tm.Constraint(OTHER, at_least=0.0)}).state_dict()
    for limits in ({"at_most": 0.0}, {"at_least": 0.0, "at_most": 0.5}):
        with pytest.raises(ValueError, match="its limits is"):
            make(constraints={"g": tm.Constraint(OTHER, **limits)}).load_state_dict(state)


def test_functions_count_by_their_source_and_closures_are_refused():
    state = make(beta=lambda n: 2.0 + n).state_dict()
    with pytest.raises(ValueError, match="its confidence is"):
        make(beta=lambda n: 3.0 + n).load_state_dict(state)
    width = 2.0
    with pytest.raises(ValueError, match="confidence has a function that keeps values of its own"):
        make(beta=lambda n: width).state_dict()


def test_a_newer_format_is_said_to_be_newer_and_nan_is_refused(tmp_path):
    path = tmp_path / "state.json"
    make().save(path)
    text = path.read_text()
    path.write_text(text.replace('"format": 2', '"format": 3'))
    with pytest.raises(ValueError, match=r"has format 3, written by Tellmost .*Install a newer"):
        make().load(path)
    path.write_text(text.replace('"seed": 0', '"seed": NaN'))
    with pytest.raises(ValueError, match="a number must be finite; it has NaN"):
        make().load(path)


def test_what_another_process_wrote_is_never_overwritten(tmp_path):
    path = tmp_path / "state.json"
    first = make()
    go(first, 1)
    first.save(path)
    second = make().load(path)
    go(second, 1)
    second.save(path)
    first.tell(row=5, objective=0.5, constraints={"g": 0.5})
    before = path.read_bytes()
    with pytest.raises(
        FileExistsError, match=r"was written by process \d+ on .*Nothing was written"
    ):
        first.save(path)
    assert path.read_bytes() == before


def test_a_file_that_is_being_written_names_the_process(tmp_path):
    path = tmp_path / "state.json"
    with (
        locked(path),
        pytest.raises(BlockingIOError, match=r"is being written by process \d+ on"),
        locked(path, patience=0.0),
    ):
        pass


def test_windows_locks_a_byte_that_nobody_reads(tmp_path, monkeypatch):
    """Its module is put in place by one that locks with what this system has."""
    fcntl, asked = pytest.importorskip("fcntl"), []

    def locking(descriptor, mode, count):
        asked.append((os.lseek(descriptor, 0, os.SEEK_CUR), mode, count))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(13, "Permission denied") from error

    windows = SimpleNamespace(locking=locking, LK_NBLCK=2)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setattr(writing.sys, "platform", "win32")
    path = tmp_path / "state.json"
    with (
        locked(path),
        pytest.raises(BlockingIOError, match=f"is being written by process {os.getpid()}"),
        locked(path, patience=0.0),
    ):
        pass
    assert asked[0] == (writing.LOCKED_BYTE, 2, 1)


def test_a_file_that_is_no_state_is_named(tmp_path):
    (tmp_path / "other.json").write_text('{"format": "something else"}')
    with pytest.raises(ValueError, match=r"other.json' is no saved optimizer"):
        make().load(tmp_path / "other.json")


def put(number, **changed):
    """Change an entry of the journal, or take something out of it."""

    def change(state):
        entry = {**state["journal"][number], **changed}
        state["journal"][number] = {k: v for k, v in entry.items() if v is not Ellipsis}

    return change


def append(**entry):
    return lambda state: state["journal"].append(entry)


DAMAGE = {
    "a point elsewhere": put(1, x=[7.0, 7.0]),
    "a point of NaN": put(1, x=[float("nan"), 0.5]),
    "a point of one": put(1, x=[0.5]),
    "a value that is NaN": put(1, values={"objective": float("nan"), "g": 0.1}),
    "a value in words": put(1, values={"objective": "1", "g": 0.1}),
    "a value that is true": put(1, values={"objective": True, "g": 0.1}),
    "an unknown output": put(1, values={"h": 1.0}),
    "no value": put(1, values={}),
    "no noise": put(1, noise_std={"objective": 0.0}),
    "no x": put(1, x=...),
    "a status too many": put(1, status="safe"),
    "an id that came before": put(1, id=0),
    "an id in words": put(1, id="1"),
    "an entry of a new kind": put(1, kind="feast"),
    "failed in words": put(1, is_failed="no"),
    "a trial retracted that was never told": append(kind="retracted", id=9),
    "a refit of one output": append(kind="refit", priors={"g": {}}),
    "moved elsewhere": append(kind="acknowledged", at=[7.0, 7.0]),
    "moved to NaN": append(kind="acknowledged", at=[float("nan"), 0.5]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_state_that_cannot_be_is_refused(damage):
    mine = make()
    go(mine, 3)
    state = json.loads(json.dumps(mine.state_dict()))
    damage(state)
    with pytest.raises(ValueError, match=r"^the state is damaged, and nothing of it was taken"):
        make().load_state_dict(state)


@pytest.mark.skipif("config.getoption('--shapes', False)", reason="annotations refuse it first")
def test_what_is_no_state_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"state must be a mapping, .*; got NoneType"):
        make().load_state_dict(None)
    for content in (b"\xff\xfe{", b"[" * 10**5, b"[]", b"{", b'{"format": 1}'):
        (tmp_path / "other.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"other.json' is no saved optimizer"):
            make().load(tmp_path / "other.json")
