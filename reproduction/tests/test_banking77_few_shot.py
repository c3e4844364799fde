"""The page on few-shot answers says what its committed answers say."""

import csv
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
NAMES = {
    "vtl": "by VTL, a probe each",
    "nearest": "nearest neighbours, a probe each",
    "vote": "nearest neighbours, a vote",
    "one_probe": "one probe, trained on all 10,003",
}


def cell(values):
    error = values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.3f} ± {error:.3f}".replace("0.", ".")


def test_accuracies_and_leads_in_the_text_are_those_of_the_answers():
    folder = ROOT / "results" / "banking77-few-shot"
    with (folder / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    intents = np.array([row["intent"] for row in rows])
    is_right = {
        name: (np.array([row[name] for row in rows]) == intents).astype(float) for name in NAMES
    }
    assert len(rows) == 3_080
    for text in ((folder / "README.md").read_text(), (ROOT / "docs" / "few-shot.md").read_text()):
        for name, title in NAMES.items():
            lead = "" if name == "vtl" else cell(is_right["vtl"] - is_right[name]) + " "
            assert f"| {title} | {cell(is_right[name])} | {lead}|" in text
