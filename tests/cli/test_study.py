"""The commands of a study: JSON in and out, and what comes from outside is checked first."""

import json

import pytest

pytest.importorskip("optuna")

LASER = """
name = "laser"
confidence = 0.95
[parameters.power]
low = 1
high = 50
step = 1
unit = "W"
[parameters.gas]
choices = ["argon", "helium"]
[parameters.nozzle]
fixed = 0.8
[objective]
lengthscale = { power = 15.0, gas = 2.0 }
noise_std = 0.05
[constraints.heat]
at_most = 80.0
unit = "°C"
lengthscale = { power = 15.0, gas = 2.0 }
mean = 50
scale = 20.0
noise_std = 0.5
[[seeds]]
power = 5
gas = "argon"
objective = 0.4
heat = 45.0
"""


@pytest.fixture
def made(tmp_path, run):
    (tmp_path / "laser.toml").write_text(LASER, encoding="utf-8")
    assert run("study", "create", "laser.toml").json()["told"] == 1
    return run


def tell(run, **told):
    return run("study", "tell", json.dumps(told)).json()


def test_a_study_is_created_asked_told_and_looked_at(made, tmp_path):
    (first, second) = made("study", "ask", "-n", 2).json()
    assert first["trial"] == 1 and first["parameters"]["nozzle"] == 0.8
    assert first["units"] == {"power": "W"} and first["safety"]["probability_safe"] > 0.95
    tell(made, trial=1, objective=0.5, constraints={"heat": 50.0})
    tell(made, trial=1, objective=0.5, constraints={"heat": 50.0})
    tell(made, trial=2, failed="the shutter was closed")
    now = made("study", "status", "--name", "laser").json()
    assert now["told"] == 3 and now["failed"] == {"2": "the shutter was closed"}
    assert second["parameters"] != first["parameters"] and now["pending"] == []
    made("study", "figures", "-o", "laser.html")
    page = (tmp_path / "laser.html").read_text(encoding="utf-8")
    assert "heat [°C]" in page and "http-equiv" in page and "<script src" not in page


def test_a_violation_halts_until_it_is_acknowledged(made):
    (asked,) = made("study", "ask").json()
    tell(made, trial=asked["trial"], objective=0.5, constraints={"heat": 99.0})
    assert "Halted" in made("study", "ask", code=1).stderr
    assert made("study", "status").json()["halted_by"] == [1]
    at = json.dumps({"power": 5, "gas": "argon"})
    assert made("study", "acknowledge", "--by", "me", "--at", at).json() == {"acknowledged": [1]}
    assert made("study", "ask").json()


def test_points_of_ones_own_are_judged(made):
    far = json.dumps({"power": 50, "gas": "helium"})
    assert "not known to be safe" in made("study", "ask", "--point", far, code=1).stderr
    asked = made("study", "ask", "--point", far, "--risk").json()
    assert asked[0]["safety"]["purpose"] == "risk" and asked[0]["parameters"]["power"] == 50.0
    wrong = json.dumps({"power": 500, "gas": "helium"})
    assert "from 1 to 50 W; got 500" in made("study", "ask", "--point", wrong, code=1).stderr


def test_abandoned_trials_and_decisions_are_told_too(made):
    made("study", "ask")
    tell(made, trial=1, abandoned="night shift")
    tell(made, trial=0, decision="retracted")
    now = made("study", "status").json()
    assert now["told"] == 0 and now["abandoned"] == {"1": "abandoned: night shift"}


WRONG = [
    ('{"trial": 1, "objective": NaN}', 1, "objective must be finite"),
    ('{"trial": 1, "constraints": {"heat": Infinity}}', 1, "heat must be finite"),
    ('{"trial": 1, "constraints": {"cold": 1}}', 1, "there is no constraint 'cold'"),
    ('{"trial": 1, "objective": "x"}', 1, "objective must be a number"),
    ('{"trial": 9, "objective": 1}', 1, "0 to 1; got 9"),
    ('{"trial": "1", "objective": 1}', 2, "must have the number of a trial"),
    ('{"trial": 1}', 2, "must have values, or failed"),
    ('{"trial": 1, "failed": ""}', 2, "a text that says why"),
    ('{"trial": 1, "objective": 1, "failed": "x"}', 2, "must have values, or failed"),
    ('{"trial": 1, "speed": 1}', 2, "'speed', which is not known"),
    ("[1]", 2, "must be a table"),
    ("{", 2, "this is no JSON"),
    ('"' + "x" * 1_000_001 + '"', 2, "at most 1,000,000 letters"),
]


def test_what_is_told_is_checked_before_it_is_stored(made):
    made("study", "ask")
    for told, code, message in WRONG:
        assert message in made("study", "tell", told, code=code).stderr
    assert made("study", "status").json()["told"] == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("at_most = 80.0", "at_mots = 80.0", "'at_mots', which is not known"),
        ("low = 1", 'low = 1\nwhen = "gas"', "parameters.power has 'when', which is not known"),
        ("high = 50", "high = 0", "parameters.power: Parameter must have low < high"),
        ("high = 50", "high = nan", "must be a finite number"),
        ("noise_std = 0.05", "", "objective must have noise_std"),
        ("power = 5", "power = 500", "must be a number from 1 to 50"),
        ("heat = 45.0", "heat = 45.0\ncold = 1", "'cold', which is not known"),
        ("heat = 45.0", "heat = nan", "heat must be finite"),
        ("[objective]", "[objective", "is no TOML or JSON file"),
        ("at_most = 80.0", "", "must have a limit"),
    ],
)
def test_a_file_that_describes_no_study_is_refused(tmp_path, run, old, new, message):
    (tmp_path / "laser.toml").write_text(LASER.replace(old, new), encoding="utf-8")
    done = run("study", "create", "laser.toml", code=2)
    assert message in done.stderr and not (tmp_path / "tellmost.db").exists()


def test_a_storage_that_is_not_there_is_not_made(run, tmp_path):
    message = run("study", "ask", "--storage", "sqlite:///none.db", code=2).stderr
    assert "none.db does not" in message and not (tmp_path / "none.db").exists()


def test_limits_can_be_changed_and_nothing_else(made, tmp_path):
    path = tmp_path / "laser.toml"
    path.write_text(LASER.replace("at_most = 80.0", "at_most = 70.0"), encoding="utf-8")
    assert "already exists" in made("study", "create", "laser.toml", code=1).stderr
    made("study", "create", "laser.toml", "--changed", "limits")
    (asked,) = made("study", "ask").json()
    assert asked["safety"]["bounds"]["heat"][1] <= 70.0
    path.write_text(LASER.replace("scale = 20.0", "scale = 2.0"), encoding="utf-8")
    message = made("study", "create", "laser.toml", "--changed", "limits", code=1).stderr
    assert "its constraints is" in message


def test_priors_are_learned_from_measurements_once(tmp_path, run):
    pytest.importorskip("gpytorch")
    rows = [
        {"power": p, "gas": "argon", "objective": p / 50, "heat": 30 + p / 2}
        for p in (1, 3, 6, 10, 15, 21, 28)
    ]
    study = {
        "parameters": {"power": {"low": 1, "high": 50}, "gas": {"choices": ["argon", "air"]}},
        "objective": {"fit": True, "noise_std": 0.05},
        "constraints": {"heat": {"at_most": 80, "fit": True, "noise_std": 0.5}},
        "measurements": rows,
        "seeds": [{"power": 3, "gas": "argon"}],
    }
    (tmp_path / "pump.json").write_text(json.dumps(study))
    assert run("study", "create", "pump.json").json() == {
        "study": "pump",
        "storage": "sqlite:///tellmost.db",
        "told": 7,
    }
    first, again = (run("study", "status").json() for _ in range(2))
    assert first == again and first["told"] == 7 and first["best_safe_trial"] is not None
