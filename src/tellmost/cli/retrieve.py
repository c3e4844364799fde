"""The command ``retrieve``: for each query its own few rows of a pool."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tellmost.cli.ending import DONE, UsageError
from tellmost.cli.options import (
    COLUMNS,
    ESSENTIALS,
    MODEL,
    PICKS,
    REQUIRED,
    Option,
    OptionValues,
    command,
)


@command(
    "pool",
    Option("queries", Path, ESSENTIALS, flags=("--queries", "-q"), default=REQUIRED).says(
        "A query in each row, in any of the formats."
    ),
    Option("k", int, ESSENTIALS, default=10, flags=("-k", "--k")).says("Rows for each query."),
    Option("output", Path, ESSENTIALS, flags=("--output", "-o")).says(
        "Where the answers go, a .jsonl file. Default: stdout."
    ),
    Option("rule", str, PICKS, "NAME", default="vtl").says(
        "vtl, itl, itl-y, mm-itl, ctl; for comparison mmr, cosine, top-k."
    ),
    Option("nearest", int, PICKS, default=200).says(
        "How many rows are looked at, the nearest of each query; 0 for all."
    ),
    Option("refresh", bool, PICKS, default=False).says(
        "Search again for what is left to learn, in both directions; for training at test time."
    ),
    "min_gain_share",
    Option("alpha", float, PICKS).says(
        "Stop a query with n rows once its standard deviation is above 1 / (alpha n) of the first."
    ),
    Option("noise_ratio", float, MODEL).says(
        "Noise variance over the rows' mean prior variance. Small spreads the picks, large keeps "
        "them near the query."
    ),
    *("normalize", "exclude", "candidates", *COLUMNS, "device", "memory", "progress"),
)
def retrieve(given: OptionValues) -> int:
    """Pick for each query the few rows of POOL that together say most about it.

    One line of JSON for each query: its id, and the ids, gains and texts of its rows.

        tellmost retrieve pool.npy --queries q.npy -k 10 -o picks.jsonl

        tellmost retrieve docs.jsonl --queries q.jsonl --text-field text
            --embed all-minilm -k 5
    """
    import tellmost
    from tellmost.cli.inputs import (
        about_usage,
        check_model,
        find_candidates,
        read_points,
        read_rule,
    )
    from tellmost.cli.paths import check_files
    from tellmost.running.writing import check_writable

    check_files(given)
    check_model(given)
    if given.output is not None:
        if given.output.suffix != ".jsonl":
            raise UsageError(f"--output writes .jsonl; got {given.output.name}.")
        check_writable(given.output, "--output")
    rule = read_rule(given.rule)
    given.targets = given.queries
    pool, queries = read_points(given)
    assert queries is not None
    with about_usage():
        retriever = tellmost.Retriever(
            pool.vectors,
            rule=rule,
            noise_ratio=given.noise_ratio,
            normalize=given.normalize or "auto",
            candidates=given.nearest or None,
            refresh=given.refresh,
        )
        found = retriever.search(
            queries.vectors,
            given.k,
            allowed=find_candidates(given, pool),
            min_gain_share=given.min_gain_share,
            alpha=given.alpha,
        )
    write_answers(given.output, [*answers(*found, pool, queries)])
    return DONE


def answers(gains: Any, indices: Any, pool: Any, queries: Any) -> Iterator[dict[str, Any]]:
    """What is written about each query, in plain values."""
    texts = None if pool.text_field is None else pool.values(pool.text_field)
    ids = queries.of_vectors(queries.ids).tolist()
    for query, gain, places in zip(ids, gains, indices, strict=True):
        rows = pool.in_file(places[places >= 0])
        answer = {"query": query, "ids": pool.ids[rows].tolist()}
        answer["gains"] = gain[places >= 0].tolist()
        if texts is not None:
            answer["texts"] = [texts[row] for row in rows.tolist()]
        yield answer


def write_answers(path: Path | None, lines: list[dict[str, Any]]) -> None:
    from tellmost.cli.output import print_json
    from tellmost.running.writing import written_whole

    if path is None:
        for line in lines:
            print_json(line)
        return
    with written_whole(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        for line in lines:
            print(json.dumps(line, ensure_ascii=False, default=str), file=file)
    print(f"{len(lines):,} queries\nwritten: {path}")
