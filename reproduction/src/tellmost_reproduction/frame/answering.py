"""Does the paper hold? One page with every claim, made from the expected numbers alone.

Hübotter et al. 2024. A claim of the main text weighs more than one of the appendix, and what the
paper does not claim comes last.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tellmost_reproduction.catalogue import CATALOGUE
from tellmost_reproduction.frame.folders import keep_text
from tellmost_reproduction.frame.numbers import read_numbers
from tellmost_reproduction.frame.pages import in_markdown, in_paragraphs
from tellmost_reproduction.frame.verdicts import FAILS, HOLDS, IN_PART, OPEN, Verdict

PACKAGE = Path("reproduction", "src", "tellmost_reproduction")
PAGE = Path("docs", "does-the-paper-hold.md")

MAIN, APPENDIX, OURS = range(3)
WEIGHTS = {
    MAIN: ("Claims of the main text", "in the paper"),
    APPENDIX: ("Claims of the appendix", "in the paper's appendix"),
    OURS: ("Beyond the paper", "whose question"),
}
"""The parts of the page, and the heading of the column that says where a claim stands."""

Place = tuple[int, str]
GPS = 'Sec. "Experiments in the Gaussian Process Setting"'
SAFE = "Fig. 5"
MORE = '"Additional experiments"'
THOMPSON = '"A More Exploitative Stochastic Target Space"'
QUADCOPTER = '"Safe Controller Tuning for Quadcopter"'
PLACES: dict[str, Place] = {
    "gp-fig2": (MAIN, "Fig. 2"),
    "gp-fig3": (MAIN, "Fig. 3"),
    "gp-laplace": (APPENDIX, '"Additional GP Experiments & Details"'),
    "gp-extrapolation": (APPENDIX, '"Additional GP Experiments & Details"'),
    "gp-extrapolation-laplace": (APPENDIX, '"Additional GP Experiments & Details"'),
    "gp-heteroscedastic": (APPENDIX, '"Additional GP Experiments & Details"'),
    "gp-sparse": (APPENDIX, '"Additional GP Experiments & Details"'),
    "nn-cifar100": (MAIN, "Fig. 4"),
    "nn-mnist": (MAIN, "Fig. 4"),
    "nn-inside": (APPENDIX, '"Prediction Targets are Contained in Sample Space"'),
    "nn-embeddings": (APPENDIX, '"Embeddings and Kernels"'),
    "nn-laplace": (APPENDIX, '"Towards Uncertainty Quantification in Latent Space"'),
    "nn-batches": (APPENDIX, '"Batch Selection via Conditional Embeddings"'),
    "nn-baselines": (APPENDIX, '"Baselines"'),
    "nn-undirected": (APPENDIX, '"Baselines"'),
    "nn-scarce": (APPENDIX, MORE),
    "nn-lopsided": (APPENDIX, MORE),
    "nn-candidates": (APPENDIX, MORE),
    "nn-per-round": (APPENDIX, MORE),
    "nn-targets": (APPENDIX, MORE),
    "nn-rho": (APPENDIX, '"Ablation study of noise standard deviation"'),
    "safebo-1d": (MAIN, SAFE),
    "safebo-2d": (MAIN, SAFE),
    "safebo-quadcopter": (MAIN, SAFE),
    "safebo-quadcopter-text": (MAIN, SAFE),
    "safebo-barriers": (APPENDIX, '"Jumping Past Local Barriers"'),
    "safebo-process": (OURS, "ours, about a task of ours"),
    "safebo-misspecified": (OURS, "ours"),
}
"""Where the claims about an experiment stand. The order is that of the page."""

ELSEWHERE: tuple[tuple[str, str, Place], ...] = (
    ("", "(ours)", (OURS, "ours")),
    ("", "Ours to show", (OURS, "ours")),
    ("safebo-process", "", (OURS, "ours, about a task of ours")),
    ("gp-", "Local UnSa does not", (MAIN, f"{GPS}, footnote")),
    ("gp-", 'Information "leaks"', (MAIN, GPS)),
    ("gp-", "The advantage over UnSa", (MAIN, GPS)),
    ("gp-", "MM-ITL, VTL and CTL", (APPENDIX, '"Additional GP Experiments & Details"')),
    ("nn-", "VTL performs almost", (APPENDIX, MORE)),
    ("safebo-", "Heuristic SafeOpt fails", (APPENDIX, '"Synthetic Experiments"')),
    ("safebo-", "The size of the safe set", (APPENDIX, '"Synthetic Experiments"')),
    ("safebo-", "GoOSE fails", (APPENDIX, THOMPSON)),
    ("safebo-", "Thompson targets", (APPENDIX, THOMPSON)),
    ("safebo-", "ITL and SafeOpt expand", (APPENDIX, THOMPSON)),
    ("safebo-", "ISE-BO is not", (APPENDIX, '"ISE and ISE-BO"')),
    ("safebo-", "EIC violates", (APPENDIX, QUADCOPTER)),
)
"""Claims that stand elsewhere: how the experiment's name and the claim begin, and the place."""

ABOUT = """# Does the paper hold?

This page has every claim of Hübotter et al. 2024 that experiments can judge, with what came of it.
`python -m tellmost_reproduction.publish page --repository .` writes it from the expected numbers
of the experiments, which come with the package, so it says what the last full runs said. The
command in a row runs the experiment again, and its link leads to the rule of the verdicts, the
figure and all numbers. Network experiments need `--data` as well. What differs from the paper, and
why, is said in [Gaussian processes](gp-experiments.md), [networks](network-experiments.md), [safe
optimization](safebo-experiments.md) and [theory](theory.md)."""


@dataclass(frozen=True)
class Row:
    """A claim about an experiment, with its place in the paper."""

    experiment: str
    place: Place
    verdict: Verdict

    def cells(self) -> list[str]:
        one = self.verdict
        page = f"../results/{self.experiment}/README.md"
        command = f"[`tellmost reproduce {self.experiment}`]({page})"
        where = [one.claim, self.place[1], f"**{one.holds}**", one.finding]
        return [*where, one.configuration, str(one.seeds or ""), command]


def place_of(experiment: str, claim: str) -> Place:
    for name, beginning, place in ELSEWHERE:
        if experiment.startswith(name) and claim.startswith(beginning):
            return place
    return PLACES[experiment]


def read_rows(package: Path) -> Iterator[Row]:
    """All claims of the experiments that there are numbers of, in the order of the page."""
    for name in PLACES:
        folder = CATALOGUE[name].module.split(".")[1]
        path = package / folder / "expected" / f"{name}.json"
        verdicts = read_numbers(path).verdicts if path.exists() else []
        yield from (Row(name, place_of(name, one.claim), one) for one in verdicts)


def write_answer(package: Path) -> str:
    """Write the whole page."""
    rows = list(read_rows(package))
    parts = {weight: [row for row in rows if row.place[0] == weight] for weight in WEIGHTS}
    words = (HOLDS, IN_PART, FAILS, OPEN)
    counts = {w: Counter(row.verdict.holds for row in some) for w, some in parts.items()}
    summary = [
        ["", *words, "all"],
        *(
            [WEIGHTS[w][0], *(str(counts[w][word]) for word in words), str(len(parts[w]))]
            for w in WEIGHTS
        ),
    ]
    tables = [
        part
        for weight, (title, where) in WEIGHTS.items()
        for part in (f"## {title}", _table(where, parts[weight]))
    ]
    return in_paragraphs([ABOUT, in_markdown(summary), *tables])


def _table(where: str, rows: list[Row]) -> str:
    heading = ["claim", where, "verdict", "numbers", "configuration", "seeds", "command"]
    return in_markdown([heading, *(row.cells() for row in rows)])


def keep_answer(repository: Path) -> None:
    keep_text(write_answer(repository / PACKAGE), repository / PAGE)
