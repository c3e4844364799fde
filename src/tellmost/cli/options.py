"""The options of the commands, each declared once with its type and its help.

A command names the options that it takes and receives what was given as one object. The names are
those of the arguments of ``tellmost.select`` where the option means the same.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from glob import has_magic
from inspect import Parameter, Signature
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from tellmost.cli.ending import NobodyReadsError

ESSENTIALS, FILES, PICKS = "Usually needed", "Files and columns", "What to pick"
MODEL, OUTPUT, RUNNING = "The model", "Output", "Running"
REQUIRED: Any = Parameter.empty


@dataclass(frozen=True)
class Option:
    """An option of a command, shown in a panel of the help."""

    name: str
    kind: Any
    panel: str | None  # None: an argument, which is given without a name
    metavar: str | None = None
    default: Any = None
    flags: tuple[str, ...] = ()  # () for the name with two dashes
    help: str = ""

    def says(self, help: str) -> "Option":
        return replace(self, help=help)

    def as_parameter(self) -> Parameter:
        """The option as typer reads it from a function's signature."""
        speaks_for_itself = isinstance(self.default, bool | None) or self.default is REQUIRED
        shown: dict[str, Any] = {"help": self.help, "metavar": self.metavar}
        shown["show_default"] = not speaks_for_itself
        declared: Any = typer.Argument(**shown)
        if self.panel is not None:
            flags = self.flags or (f"--{self.name.replace('_', '-')}",)
            declared = typer.Option(*flags, rich_help_panel=self.panel, **shown)
        kind = self.kind | None if self.default is None else self.kind
        kind = Annotated[kind, declared]
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=self.default, annotation=kind)


OPTIONS = (
    Option("pool", list[str], None, metavar="POOL", default=REQUIRED).says(
        "What you may choose from, a row each: .npy, .npz, .safetensors, .parquet, .csv, .tsv, "
        ".jsonl or .json, or - for what stdin brings. Several files are taken as one pool; so are "
        "a folder, a pattern, and a URL such as 's3://bucket/part-*.parquet'."
    ),
    Option("targets", str, ESSENTIALS, "FILE", flags=("--targets", "-t")).says(
        "What you want to predict well, in any of the formats. No labels needed. Left out only "
        "for rules without targets."
    ),
    Option("k", int, ESSENTIALS, flags=("-k", "--k")).says("How many rows to pick."),
    Option("text_field", str, ESSENTIALS, "NAME").says(
        "Column or field that holds the text of a row: embedded with --embed, and shown in the "
        "report."
    ),
    Option("embed", str, ESSENTIALS, "MODEL").says(
        "Embed the texts: a sentence-transformers model by its id on the Hugging Face Hub "
        "(all-minilm for short) or its folder, or package.module:function. Kept beside the file, "
        "or for several in the cache folder, and reused."
    ),
    Option("observed", list[Path], FILES).says(
        "What is known already, by id: picks of an earlier round (.csv, .jsonl, .parquet, "
        ".tellmost), or a list of ids (.txt). Conditioned on, never picked again. May be given "
        "again, for several rounds."
    ),
    Option("exclude", list[Path], FILES).says(
        "Rows that must not be picked, named as in --observed."
    ),
    Option("candidates", list[Path], FILES).says(
        "The only rows that may be picked, named as in --observed."
    ),
    Option("avoid", list[Path], FILES).says(
        "Rows that no pick may be near to, such as evaluation data, in any format of a pool."
    ),
    Option("avoid_cosine", float, FILES, "COSINE", default=0.98).says(
        "What counts as near to a row of --avoid."
    ),
    Option("vector_column", str, FILES, "NAME").says(
        "Column, field or array that holds the vectors."
    ),
    Option("id_column", str, FILES, "NAME").says(
        "Column or field with the id of a row. Default: id, if there is one; else the row "
        "number, from 0."
    ),
    Option("features", list[str], FILES, "COLUMNS").says(
        "The columns of a .csv or .tsv file that are features: names by commas, and ranges such "
        "as a:h. Default: all columns of numbers that no other option names."
    ),
    Option(
        "exclude_columns",
        list[str],
        FILES,
        "COLUMNS",
        flags=("--exclude-columns", "--ignore-column"),
    ).says("Columns of numbers that are no features, named as in --features."),
    Option("on_bad_row", str, FILES, "fail|skip", default="fail").says(
        "What to do about rows that are not finite, and about empty texts to embed. Skipped rows "
        "are counted, named and never picked."
    ),
    Option("target_weights", Path, FILES).says("A file with the importance of each target."),
    Option("cost", Path, FILES).says("A file with the cost of each pool row. See --budget."),
    Option("cost_column", str, FILES, "NAME").says(
        "The column of the pool's file with the costs."
    ),
    Option("groups", Path, FILES).says(
        "A file with a label for each pool row. See --max-per-group."
    ),
    Option("group_column", str, FILES, "NAME").says(
        "The column of the pool's file with the groups."
    ),
    Option("labels", Path, FILES).says(
        "A file with the label of each pool row: names or whole numbers are classes, other "
        "numbers a regression."
    ),
    Option("label_column", str, FILES, "NAME").says(
        "The column of labels, in the files of labels or in the pool's and the targets', where it "
        "is no feature."
    ),
    Option("rule", str, PICKS, "NAME", default="vtl").says(
        "vtl, itl, itl-y, mm-itl, ctl, ctl-y; without targets: uncertainty, undirected-itl, "
        "undirected-vtl, k-center, k-means++; if targets are in the pool: truvar, "
        "local-uncertainty; for comparison: top-k, mmr, cosine, random. Or as in Python: "
        "'MMR(relevance=0.7)', 'Random(seed=1)'."
    ),
    Option("budget", float, PICKS).says(
        "Spend at most so much: ranks by gain per cost, skips what no longer fits."
    ),
    Option("max_per_group", int, PICKS).says("At most so many picks of each group."),
    Option("dedupe", float, PICKS, "COSINE").says(
        "Close rows that are nearer than this to a pick, such as 0.98."
    ),
    Option("min_gain", float, PICKS).says("Stop when no pick is worth so much."),
    Option("min_gain_share", float, PICKS).says(
        "Stop when no pick is worth this share of the first."
    ),
    Option("replace", bool, PICKS, default=False).says(
        "A row may be picked again, as another measurement."
    ),
    Option(
        "conditional", bool, PICKS, default=True, flags=("--conditional/--no-conditional",)
    ).says("Score each pick given those before. --no-conditional ranks once, for comparison."),
    Option("kernel", str, MODEL, "KERNEL").says(
        "Default: embeddings, inner products of centred rows of unit length. linear: of rows as "
        "they are. gaussian: for tables. Or as in Python: 'Gaussian(lengthscale=2.0)', "
        "'Matern(nu=2.5, lengthscale=1.0)'."
    ),
    Option("noise_ratio", float, MODEL).says(
        "Noise variance of an observation over the rows' mean prior variance. Default 1. Small "
        "spreads the picks, large concentrates them near the targets."
    ),
    Option("noise_std", str, MODEL, "NUMBER|FILE").says(
        "Instead of the ratio: a standard deviation in the unit of y, or a file with one for "
        "each pool row."
    ),
    Option("normalize", str, MODEL, "HOW").says(
        "auto, unit, center or center+unit: applied to pool, targets and observed alike. auto: "
        "center+unit for embeddings and rules with targets, else rows as they are."
    ),
    Option("targets_are", str, MODEL, "HOW").says(
        "examples: their distribution is estimated on the pool. all: exactly these points. "
        "Default: examples for embeddings, where the targets predict one another."
    ),
    Option("floor", bool, MODEL, default=False).says(
        "Also compute the uncertainty that would be left if every candidate were observed."
    ),
    Option("kind", str, MODEL, "KIND").says("classes or numbers, where the labels do not tell."),
    Option("title", str, OUTPUT, "TEXT").says("The title of the page."),
    Option("purpose", str, OUTPUT, "TEXT").says(
        "What the selection is for, and for whom: a sentence below the title of the page."
    ),
    Option("image_column", str, OUTPUT, "NAME").says(
        "The column with the path of an image for each row, to show on the page."
    ),
    Option("json", bool, OUTPUT, default=False).says(
        "Print one JSON object on stdout, for machines."
    ),
    Option("device", str, RUNNING, "NAME").says("cpu, cuda, cuda:1. Default: cpu."),
    Option("memory", str, RUNNING, "SIZE").says(
        "What may be allocated, such as 4GB; a larger pool is streamed from its file. Default: "
        "half of what is available."
    ),
    Option("columns_ahead", int, RUNNING).says(
        "How many picks one pass over the pool prepares. Changes no pick."
    ),
    Option("cluster", str, RUNNING, "ADDRESS").says(
        "Let workers of Ray hold the files: local starts them on this machine, auto joins the "
        "cluster that runs here, ray://host:10001 another one. Needs --workers."
    ),
    Option("workers", int, RUNNING).says("How many workers hold the files. See --cluster."),
    Option("cpus_per_worker", int, RUNNING, default=1).says("Processors of each worker."),
    Option("checkpoint", str, RUNNING, "FILE").says(
        "A file that takes down each pick. An interrupted run, called again, goes on there."
    ),
    Option("progress", bool, RUNNING, flags=("--progress/--no-progress",)).says(
        "A bar on stderr. Default: on a terminal after a second, else a line every half minute."
    ),
    Option("debug", bool, RUNNING, default=False).says("Show the whole traceback of an error."),
)
SHARED = {option.name: option for option in OPTIONS}
COLUMNS = (
    *("vector_column", "features", "exclude_columns", "label_column"),
    *("text_field", "id_column", "embed", "on_bad_row"),
)
KNOWN = set(SHARED)  # the names of all options of all commands


class OptionValues(SimpleNamespace):
    """The values of the options. An option that the command does not take is None."""

    def __init__(self, **given: Any) -> None:
        if given.get("pool") is not None:
            given["pool"] = [find_place(text) for text in given["pool"]]
        if given.get("targets") is not None:
            given["targets"] = find_place(given["targets"])
        if given.get("checkpoint") is not None:
            given["checkpoint"] = find_place(given["checkpoint"])
        super().__init__(**given)

    def __getattr__(self, name: str) -> Any:
        if name in KNOWN:
            return None
        raise AttributeError(f"no command has an option {name!r}.")


def find_place(given: str | Path) -> str | Path:
    """The path of a file or a folder; a URL or a pattern of files stays a text."""
    text = str(given)
    is_pattern = has_magic(text) and not Path(text).exists()
    return text if "://" in text or is_pattern else Path(text)


def command(
    *options: str | Option,
) -> Callable[[Callable[[OptionValues], int]], Callable[..., int]]:
    """Make a command with these options of a function that takes what was given for them."""
    taken = [SHARED[some] if isinstance(some, str) else some for some in (*options, "debug")]
    KNOWN.update(option.name for option in taken)

    def decorate(function: Callable[[OptionValues], int]) -> Callable[..., int]:
        @wraps(function)
        def run_command(**given: Any) -> int:
            try:
                code = function(OptionValues(**given))
                sys.stdout.flush()
            except BrokenPipeError as error:  # typer would take it for a failure
                raise NobodyReadsError from error
            return code

        run_command.__annotations__ = {}
        signature = Signature([option.as_parameter() for option in taken])
        run_command.__signature__ = signature  # type: ignore[attr-defined]
        return run_command

    return decorate
