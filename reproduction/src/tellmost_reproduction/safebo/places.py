"""Claims about safety, about the size of the safe set, and about where is measured."""

import numpy as np

from tellmost.evaluation.statistics import Mean, rank_correlation
from tellmost_reproduction.safebo.barriers import third_bump
from tellmost_reproduction.safebo.records import Record
from tellmost_reproduction.safebo.running import Run
from tellmost_reproduction.safebo.tasks import Task
from tellmost_reproduction.verdicts import Verdict, conclude

EARLY = 50  # rounds in which the paper counts the violations of EIC
CLOSE = 0.8  # the rank correlation from which on two measures match closely


def count_violations(record: Record, key: str, first: int | None = None) -> np.ndarray:
    return np.array([run.violates[:first].sum() for run in record.of(key)])


def stay_safe(record: Record) -> Verdict:
    counts = {key: int(count_violations(record, key).sum()) for key in record.keys}
    others = [f"{record.label(k)} {n}" for k, n in counts.items() if n and k not in ("itl", "vtl")]
    wrong = {key: max(int(run.wrong.max()) for run in record.of(key)) for key in record.keys}
    false = [f"{record.label(key)} {n}" for key, n in wrong.items() if n]
    taken = f"; points wrongly taken for safe, at most: {', '.join(false)}" if false else ""
    return Verdict(
        "ITL and VTL violate no constraint",
        conclude([counts["itl"] == 0, counts["vtl"] == 0]),
        f"ITL {counts['itl']}, VTL {counts['vtl']} violations in {record.seeds} x "
        f"{record.rounds} rounds; of the others: {', '.join(others) or 'none'}{taken}",
    )


def eic_violates(record: Record) -> Verdict:
    """That ITL and VTL do not is a claim of its own."""
    counts = count_violations(record, "eic", EARLY)
    return Verdict(
        "EIC violates constraints, in 1.6 of the first 50 rounds",
        conclude([bool(counts.any())]),
        f"In the first {min(EARLY, record.rounds)} rounds: EIC "
        f"{Mean.of(counts).text(digits=2)}{describe_eic(record)}",
    )


def describe_eic(record: Record) -> str:
    """What may explain a difference: the published one has a wrong sign, and how far it went."""
    asked = {tuple(np.atleast_1d(x)) for run in record.of("eic") for x in run.picks}
    return (
        f". EIC asked for {len(asked):,} different points; the published one multiplies by the "
        f"probability of being unsafe, this one by that of being safe"
    )


def size_matches(record: Record) -> Verdict:
    """Over methods that keep safe, in the middle of the run and at the end."""
    keys = [key for key in record.keys if key != "eic"]
    found = []
    for count in (record.rounds // 2, record.rounds):
        regret = np.array([record.mean("regret", key)[count] for key in keys])
        safe = np.array([record.mean("safe", key)[count] for key in keys])
        found.append(rank_correlation(regret, safe).value)
    return Verdict(
        "The size of the safe set matches the regret closely",
        conclude([value <= -CLOSE for value in found]),
        f"rank correlation of the two over the {len(keys)} methods that keep safe: "
        f"{found[0]:.2f} after {record.rounds // 2} rounds, {found[1]:.2f} at the end "
        f"(closely: beyond -{CLOSE})",
    )


def focus(record: Record) -> Verdict:
    """By the true objective where is measured."""
    task = record.challenge
    assert isinstance(task, Task)
    keys = ("itl", "safeopt-oracle", "itl-thompson", "goose-oracle")
    at = {key: np.array([task.f[run.picks].mean() for run in record.of(key)]) for key in keys}
    wide, focused = keys[:2], keys[2:]
    facts = [Mean.of(at[one] - at[other]).sign > 0 for one in focused for other in wide]
    means = ", ".join(f"{record.label(k)} {Mean.of(v).text(digits=2)}" for k, v in at.items())
    return Verdict(
        "ITL and SafeOpt expand evenly; ITL with Thompson targets and GoOSE focus where the "
        "objective is high",
        conclude(facts),
        f"mean objective where is measured: {means}",
    )


def never_opens(record: Record) -> Verdict:
    """Not a claim of the paper: what its printed beta does."""
    kept = [key for key in record.keys if key != "eic"]
    moved = {key: sum(map(has_moved, record.of(key))) for key in kept}
    left = [
        f"{record.label(key)} in {count} of {record.seeds} runs, with a regret of "
        f"{record.mean('regret', key)[-1]:.3f} at the end"
        for key, count in moved.items()
        if count
    ]
    others = f"; others: {', '.join(left)}" if left else ""
    return Verdict(
        "(ours) With beta 10 the safe set never grows beyond the seed",
        conclude([count == 0 for count in moved.values()]),
        f"{len(kept) - len(left)} of {len(kept)} methods that keep safe measured nothing but the "
        f"seed{others}",
    )


def has_moved(run: Run) -> bool:
    """Whether more than one point was measured."""
    return len(np.unique(run.picks, axis=0)) > 1


def jump(record: Record) -> Verdict:
    keys = ("itl-expanders", "safeopt-expanders", "safeopt")
    reached = {key: share_reached(record, key) for key in (*keys, "goose")}
    words = ", ".join(
        f"{record.label(key)} {sum(share > 0 for share in shares)} of {len(shares)} seeds, "
        f"{100 * np.mean(shares):.0f}% of it"
        for key, shares in reached.items()
    )
    return Verdict(
        "ITL with potential expanders reaches the third bump, SafeOpt never does",
        conclude([min(reached[keys[0]]) > 0, *(max(reached[key]) == 0 for key in keys[1:])]),
        f"reached: {words}",
    )


def share_reached(record: Record, key: str) -> list[float]:
    """Of the third bump, the share that is known to be safe at the end of each run."""
    task = record.challenge
    assert isinstance(task, Task)
    bump = third_bump(task)
    return [float(record.replay(run).safe_mask[bump].mean()) for run in record.of(key)]


def adapt(record: Record) -> Verdict:
    """Where the sine is within a thousandth of its extremes."""
    task = record.challenge
    assert isinstance(task, Task)
    top = np.abs(np.sin(task.domain[:, 0])) > 0.999
    shares = {
        key: Mean.of(np.array([top[run.picks].mean() for run in record.of(key)]))
        for key in ("itl-expanders", "safeopt-expanders")
    }
    words = ", ".join(f"{record.label(key)} {one.text(100.0)}%" for key, one in shares.items())
    itl, slow = (one.value for one in shares.values())
    return Verdict(
        "ITL measures where the sine is largest, SafeOpt at the boundary",
        conclude([itl > 0.5, slow < 0.5]),
        f"share of measurements where the sine is beyond 0.999 or -0.999: {words}",
    )
