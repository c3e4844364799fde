"""Picks go to a file or to stdout, and to a page. A few words about them are printed."""

import csv
import json
import sys
import warnings
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from tellmost import evaluation
from tellmost.cli.ending import DONE, UsageError, in_terms_of_options
from tellmost.cli.inputs import (
    about_usage,
    arguments_for,
    check_choices,
    check_model,
    read_points,
    vectors_of,
)
from tellmost.cli.labels import SAVED
from tellmost.cli.options import OptionValues
from tellmost.cli.paths import check_files
from tellmost.cli.pick_files import COLUMNS, check_picks_path, pick_rows, write_picks
from tellmost.evaluation.statistics import count_of
from tellmost.integrations.labelling import TOOLS, check_tasks_path, write_tasks
from tellmost.report.levels import weigh
from tellmost.report.page import write_page
from tellmost.report.page_items import PageItems
from tellmost.report.summary import About
from tellmost.rows.records import Records, as_array, as_ranges, listed
from tellmost.running.progress import working
from tellmost.running.writing import check_writable
from tellmost.selecting.selection import Selection

SHOWN = 5  # picks below the summary
AS_ASKED = ("k reached", "budget spent")  # a selection that ends otherwise ends early


class Outlet:
    """The files that a selection is written to; without --output the picks go to stdout."""

    def __init__(self, given: OptionValues) -> None:
        """Find mistakes that show before any file is read."""
        self.given, self.output, self.report = given, given.output, given.report
        if self.output is None and given.export is not None:
            raise UsageError("--export writes a file: name it with -o.")
        if given.export is not None and given.export not in TOOLS:
            raise UsageError(f"--export must be {' or '.join(TOOLS)}; got {given.export!r}.")
        if given.export is not None and given.text_field is None:
            warnings.warn(
                "the tasks will have ids, but no text: name it with --text-field.", stacklevel=2
            )
        if self.report is not None:
            check_page(self.report, "--report")
        if self.output is not None:
            check = check_picks_path if given.export is None else check_tasks_path
            with about_usage():
                check(self.output, "--output")

    def check(self, pool: Records, targets: Records | None) -> None:
        """Find before long work what cannot be written about these rows."""
        is_saved = self.output is not None and self.output.suffix == SAVED
        if pool.rows is not None and is_saved:
            raise UsageError(
                f"--output: a .tellmost file numbers the rows without those that are skipped. "
                f"Write .csv, .jsonl or .parquet, or leave these rows out of the file; "
                f"{describe_skipped(pool)}."
            )
        self._check_ids(pool, targets)

    def _check_ids(self, pool: Records, targets: Records | None) -> None:
        """Check that stdout can hold all ids, if the picks go there as csv."""
        if self.output is not None or self.given.json:
            return
        encoding = sys.stdout.encoding or "utf-8"
        for records in [pool] if targets is None else [pool, targets]:
            for row, identifier in enumerate(records.ids.tolist()):
                try:
                    str(identifier).encode(encoding)
                except UnicodeEncodeError as error:
                    raise ValueError(
                        f"stdout is written in {encoding}, which must hold every id; that of "
                        f"{records.line(row)} of {records.path.name} does not fit. Write the "
                        f"picks to a file with -o, or set PYTHONIOENCODING=utf-8."
                    ) from error

    def write(
        self, chosen: Selection, pool: Records, targets: Records | None
    ) -> list[dict[str, Any]]:
        """Write the files; return the picks as rows, for whoever prints them."""
        target_ids = None if targets is None else targets.of_vectors(targets.ids).tolist()
        in_file = replace(chosen, indices=pool.in_file(chosen.indices))
        rows = pick_rows(in_file, pool, target_ids)
        if self.given.export is not None:
            write_tasks(self.output, self.given.export, in_file, pool)
        elif self.output is not None:
            plain = [dict(row) for row in rows]
            write_picks(self.output, in_file, pool, plain, with_records=self.given.records)
        if self.report is not None:
            write_page_of(self.report, chosen, pool, targets, self.given)
        return rows

    @property
    def written(self) -> list[str]:
        return [str(path) for path in (self.output, self.report) if path is not None]


def check_page(path: Path, option: str) -> None:
    """Check that a page can be written there."""
    if path.suffix not in (".html", ".htm"):
        raise UsageError(f"{option} writes a page, .html; got {path.name}.")
    check_writable(path, option)


def write_page_of(
    path: Path, chosen: Selection, pool: Records, targets: Records | None, given: OptionValues
) -> None:
    """Write a page that names rows and targets as their files do."""
    files = [
        f"{count_of(len(some), what, f'{what}s')} of {some.path.name}"
        for some, what in ((pool, "row"), (targets, "target"))
        if some is not None
    ]
    about = About(given.title, given.purpose, files, date.today())
    shown = show(pool, given.image_column), show(targets, given.image_column)
    with working(given.progress, "writing the page"):
        write_page(chosen, path, pool.vectors, vectors_of(targets), *shown, about)


def show(records: Records | None, image_column: str | None) -> PageItems:
    """What the page shows of a file's rows. Paths of images start where the file is."""
    if records is None:
        return PageItems()
    images = None
    if image_column is not None and image_column in records.table.names:
        paths = records.of_vectors(as_array(records.values(image_column)))
        images = [path and records.path.parent / path for path in paths.tolist()]
    return PageItems(show_items(records), images, records.rows)


def show_items(records: Records) -> list[Any] | None:
    """The id and the text of each row, for a page. None if rows have numbers alone."""
    if not (records.has_own_ids or records.text_field):
        return None
    rows = records.of_vectors(np.arange(len(records)))
    if not (records.has_own_ids and records.text_field):
        return records.items(rows)
    pairs = zip(records.ids[rows], records.items(rows), strict=True)
    return [f"{identifier}: {text}" for identifier, text in pairs]


def has_ended_early(chosen: Selection) -> bool:
    """Say if nothing more could be gained before there were enough picks."""
    return len(chosen) == 0 or not chosen.stop_reason.startswith(AS_ASKED)


def print_selection(
    chosen: Selection,
    rows: list[dict[str, Any]],
    outlet: Outlet,
    pool: Records,
    targets: Records | None,
    remarks: list[str],
) -> None:
    """Print the picks if they went to no file, and a summary; or all of it as JSON."""
    if outlet.given.json:
        about = (
            summarize(chosen, outlet)
            | tell_files(pool, targets)
            | ({"picks": rows} if outlet.output is None else {})
        )
        print_json(about)
    elif outlet.output is None:
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        sys.stdout.flush()
        print(describe(chosen, outlet, remarks), file=sys.stderr)
    else:
        print(describe(chosen, outlet, remarks))
        print(tabulate(rows[:SHOWN], len(rows)))


def describe(chosen: Selection, outlet: Outlet, remarks: list[str]) -> str:
    """Say in a few lines what was done."""
    used = chosen.settings
    noise = "per row" if used["noise_variance"] == "per point" else f"{used['noise_variance']:.4g}"
    ratio = "" if used["noise_ratio"] is None else f" (ratio {used['noise_ratio']:.4g})"
    lines = [
        str(chosen),
        *remarks,
        f"noise variance {noise}{ratio}, kernel {used['kernel']}, rows "
        f"{used['normalize'] or 'as they are'}",
        f"{used['rows']:,} rows of {used['features']:,} features, {used['dtype']}, on "
        f"{used['device']}, in {used['passes']:,} pass{'es' * (used['passes'] != 1)}",
    ]
    if outlet.written:
        lines.append(f"written: {', '.join(outlet.written)}")
    return "\n".join(lines)


def remark_on(chosen: Selection, arguments: dict[str, Any]) -> list[str]:
    """Say what was spent and what was known before."""
    remarks = []
    costs, budget = arguments.get("cost"), arguments.get("budget")
    candidates = arguments.get("candidates")
    if costs is not None:
        of = "" if budget is None else f" of {budget:,.6g}"
        cheapest = f"; the cheapest row costs {costs.min():,.6g}" * (len(chosen) == 0)
        remarks.append(f"cost {float(costs[chosen.indices].sum()):,.6g}{of}{cheapest}")
    observed = len(chosen.observed_indices)
    if chosen.observed_points is not None:
        observed += len(chosen.observed_points)
    if observed or candidates is not None:
        excluded = 0 if candidates is None else int((~candidates).sum())
        remarks.append(f"{observed:,} observed before, {excluded:,} rows left out")
    return remarks


def describe_files(pool: Records, targets: Records | None) -> list[str]:
    """Say which columns of the pool are features, and which rows of the files were skipped."""
    lines = []
    if pool.features:
        what = f"{len(pool.features):,} columns" if len(pool.features) > 1 else "column"
        ranges = listed(as_ranges(pool.features, pool.table.names))
        lines.append(f"features: the {what} {ranges}")
    files = [pool] if targets is None else [pool, targets]
    return [*lines, *(describe_skipped(records) for records in files if records.rows is not None)]


def describe_skipped(records: Records) -> str:
    rows = records.skipped
    places = listed([records.line(row) for row in rows[:SHOWN]])
    more = f" and {len(rows) - SHOWN:,} more" * (len(rows) > SHOWN)
    return (
        f"skipped: {len(rows):,} of {len(records):,} rows of {records.path.name}, {places}{more}"
    )


def tell_files(pool: Records, targets: Records | None) -> dict[str, Any]:
    """Say the same for machines."""
    skipped = {"pool": pool.skipped, "targets": [] if targets is None else targets.skipped}
    return {"feature_columns": list(pool.features), "skipped_rows": skipped}


def print_json(about: dict[str, Any]) -> None:
    """Print one object, with escapes where stdout cannot hold every character."""
    is_whole = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(about, ensure_ascii=not is_whole))


def tabulate(rows: list[dict[str, Any]], total: int) -> str:
    """Show the first picks as a table."""
    if not rows:
        return ""
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    lines = ["  ".join(f"{c:>{w}}" for c, w in zip(line, widths, strict=True)) for line in cells]
    more = [f"... and {total - len(rows):,} more"] if total > len(rows) else []
    return "\n".join(["", *lines, *more])


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def print_study(name: str, given: OptionValues) -> int:
    """Check, estimate or compare, and print what was found out, in words or for machines."""
    check_files(given)
    check_model(given) if name == "check" else check_choices(given)
    pool, targets = read_points(given)
    function = getattr(evaluation, name)
    study = function(
        pool.vectors, vectors_of(targets), **arguments_for(function, given, pool, targets)
    )
    text = "\n".join([in_terms_of_options(study.describe()), *describe_files(pool, targets)])
    about = study.to_dict() | tell_files(pool, targets)
    print_json(about) if given.json else print(text)
    return DONE


def summarize(chosen: Selection, outlet: Outlet) -> dict[str, Any]:
    """Say the same for machines."""
    return {
        "picked": len(chosen),
        "stop_reason": chosen.stop_reason,
        "ended_early": has_ended_early(chosen),
        "uncertainty_before": float(chosen.uncertainty[0]),
        "uncertainty_after": float(chosen.uncertainty[-1]),
        "whole_pool": None if chosen.whole_pool is None else weigh(chosen, chosen.whole_pool),
        "floor": None if chosen.floor is None else weigh(chosen, chosen.floor),
        "settings": chosen.settings,
        "written": outlet.written,
    }
