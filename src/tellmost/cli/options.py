"""The options that commands share, each with its help; names are those of ``tm.select``."""

from pathlib import Path
from typing import Annotated, Any

import typer

ESSENTIALS, FILES, PICKS = "Usually needed", "Files and columns", "What to pick"
MODEL = "The model"
OUTPUT, RUNNING = "Output", "Running"

PoolFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="POOL",
        help="What you may choose from, a row each: .npy, .npz, .safetensors, .parquet, .csv or "
        ".jsonl. Several array files are taken as one pool.",
        show_default=False,
    ),
]


def option(
    *names: str, panel: str, help: str, metavar: str | None = None, show_default: bool = False
) -> Any:
    """An option in its box of the help."""
    return typer.Option(
        *names, rich_help_panel=panel, help=help, metavar=metavar, show_default=show_default
    )


Targets = Annotated[
    Path | None,
    option(
        "--targets",
        "-t",
        panel=ESSENTIALS,
        help="What you want to predict well, in any of the formats. No labels needed. Left out "
        "only for rules without targets.",
    ),
]
VectorColumn = Annotated[
    str | None,
    option(
        "--vector-column",
        panel=FILES,
        metavar="NAME",
        help="Column, field or array that holds the vectors.",
    ),
]
TextField = Annotated[
    str | None,
    option(
        "--text-field",
        panel=ESSENTIALS,
        metavar="NAME",
        help="Column or field that holds the text of a row: embedded with --embed, and shown in "
        "the report.",
    ),
]
IdColumn = Annotated[
    str | None,
    option(
        "--id-column",
        panel=FILES,
        metavar="NAME",
        help="Column or field with the id of a row. Default: id, if there is one; else the line "
        "number (csv, jsonl) or the row number from 0.",
    ),
]
IgnoreColumn = Annotated[
    list[str] | None,
    option(
        "--ignore-column",
        panel=FILES,
        metavar="NAME",
        help="A column of numbers that is no feature; may be given again.",
    ),
]
Embed = Annotated[
    str | None,
    option(
        "--embed",
        panel=ESSENTIALS,
        metavar="MODEL",
        help="Embed the texts: all-minilm, the folder of a sentence-transformers model, or "
        "package.module:function. Kept beside the input and reused.",
    ),
]
Observed = Annotated[
    list[Path] | None,
    option(
        "--observed",
        panel=FILES,
        help="What is known already, by id: picks of an earlier round (.csv, .jsonl, .parquet, "
        ".tellmost), or a list of ids (.txt). Conditioned on, never picked again. May be given "
        "again, for several rounds.",
    ),
]
Exclude = Annotated[
    list[Path] | None,
    option("--exclude", panel=FILES, help="Rows that must not be picked, likewise."),
]
Candidates = Annotated[
    list[Path] | None,
    option("--candidates", panel=FILES, help="The only rows that may be picked, likewise."),
]
TargetWeights = Annotated[
    Path | None,
    option("--target-weights", panel=FILES, help="A file with the importance of each target."),
]
Cost = Annotated[
    Path | None,
    option("--cost", panel=FILES, help="A file with the cost of each pool row. See --budget."),
]
CostColumn = Annotated[
    str | None,
    option(
        "--cost-column",
        panel=FILES,
        metavar="NAME",
        help="The same as a column of the pool's file.",
    ),
]
Groups = Annotated[
    Path | None,
    option(
        "--groups", panel=FILES, help="A file with a label for each pool row. See --max-per-group."
    ),
]
GroupColumn = Annotated[
    str | None,
    option(
        "--group-column",
        panel=FILES,
        metavar="NAME",
        help="The same as a column of the pool's file.",
    ),
]

K = Annotated[int | None, option("-k", "--k", panel=ESSENTIALS, help="How many rows to pick.")]
Rule = Annotated[
    str,
    typer.Option(
        "--rule",
        rich_help_panel=PICKS,
        metavar="NAME",
        help="vtl, itl, itl-y, mm-itl, ctl; without targets: uncertainty, undirected-itl, "
        "undirected-vtl, k-center, k-means++; if targets are in the pool: truvar, "
        "local-uncertainty; for comparison: top-k, mmr, cosine, random. Or as in Python: "
        "'MMR(relevance=0.7)', 'Random(seed=1)'.",
    ),
]
Budget = Annotated[
    float | None,
    option(
        "--budget",
        panel=PICKS,
        help="Spend at most so much: ranks by gain per cost, skips what no longer fits.",
    ),
]
MaxPerGroup = Annotated[
    int | None,
    option("--max-per-group", panel=PICKS, help="At most so many picks of each group."),
]
MinGain = Annotated[
    float | None,
    option("--min-gain", panel=PICKS, help="Stop when no pick is worth so much."),
]
MinGainShare = Annotated[
    float | None,
    option(
        "--min-gain-share", panel=PICKS, help="Stop when no pick is worth this share of the first."
    ),
]
Replace = Annotated[
    bool,
    option("--replace", panel=PICKS, help="A row may be picked again, as another measurement."),
]
Conditional = Annotated[
    bool,
    typer.Option(
        "--conditional/--no-conditional",
        rich_help_panel=PICKS,
        help="Score each pick given those before. --no-conditional ranks once, for comparison.",
        show_default=False,
    ),
]

Kernel = Annotated[
    str | None,
    option(
        "--kernel",
        panel=MODEL,
        metavar="KERNEL",
        help="Default: inner products of the rows. Or as in Python: 'Gaussian(lengthscale=2.0)', "
        "'Matern(nu=2.5, lengthscale=1.0)'.",
    ),
]
NoiseRatio = Annotated[
    float | None,
    option(
        "--noise-ratio",
        panel=MODEL,
        help="Noise variance of an observation over the rows' mean prior variance. Default 1. "
        "Small spreads the picks, large concentrates them near the targets.",
    ),
]
NoiseStd = Annotated[
    str | None,
    option(
        "--noise-std",
        panel=MODEL,
        metavar="NUMBER|FILE",
        help="Instead of the ratio: a standard deviation in the unit of y, or a file with one for "
        "each pool row.",
    ),
]
Normalize = Annotated[
    str | None,
    option(
        "--normalize",
        panel=MODEL,
        metavar="HOW",
        help="unit, center or center+unit: applied to pool, targets and observed alike. Default: "
        "rows as they are.",
    ),
]
Floor = Annotated[
    bool,
    option(
        "--floor",
        panel=MODEL,
        help="Also compute the uncertainty that would be left had every candidate been observed.",
    ),
]

Labels = Annotated[
    Path | None,
    option(
        "--labels",
        panel=FILES,
        help="A file with the label of each pool row: names or whole numbers are classes, other "
        "numbers a regression.",
    ),
]
LabelColumn = Annotated[
    str | None,
    option(
        "--label-column",
        panel=FILES,
        metavar="NAME",
        help="The column of labels, in the files of labels or in the pool's and the targets'.",
    ),
]
Kind = Annotated[
    str | None,
    option(
        "--kind",
        panel=MODEL,
        metavar="KIND",
        help="classes or numbers, where the labels do not tell.",
    ),
]

Json = Annotated[
    bool, option("--json", panel=OUTPUT, help="Print one JSON object on stdout, for machines.")
]
Device = Annotated[
    str | None,
    option("--device", panel=RUNNING, metavar="NAME", help="cpu, cuda, cuda:1. Default: cpu."),
]
Memory = Annotated[
    str | None,
    option(
        "--memory",
        panel=RUNNING,
        metavar="SIZE",
        help="What may be allocated, such as 4GB; a larger pool is streamed from its file. "
        "Default: half of what is available.",
    ),
]
ColumnsAhead = Annotated[
    int | None,
    option(
        "--columns-ahead",
        panel=RUNNING,
        help="How many picks one pass over the pool prepares. Changes no pick.",
    ),
]
Checkpoint = Annotated[
    Path | None,
    option(
        "--checkpoint",
        panel=RUNNING,
        help="A file that takes down each pick; an interrupted run, called again, goes on there.",
    ),
]
Progress = Annotated[
    bool | None,
    option(
        "--progress/--no-progress",
        panel=RUNNING,
        help="A bar on stderr. Default: on a terminal, after a second.",
    ),
]
Debug = Annotated[
    bool, option("--debug", panel=RUNNING, help="Show the whole traceback of an error.")
]
