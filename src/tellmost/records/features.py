"""Columns of numbers mean the same in two files only if they have the same names."""

from dataclasses import replace

from tellmost.records.columns import listed
from tellmost.records.records import Records


def match_features(targets: Records, pool: Records) -> Records:
    """The targets with their columns of numbers in the pool's order.

    Only where both are made of several named columns; else their widths alone are compared.
    """
    names, own = list(pool.features), list(targets.features)
    if len(names) < 2 or len(own) < 2 or names == own:
        return targets
    only = [
        f"{listed(sorted(some))} only in {records.path.name}"
        for some, records in (
            (set(names) - set(own), pool),
            (set(own) - set(names), targets),
        )
        if some
    ]
    if only:
        raise ValueError(
            f"pool and targets must have the same columns of numbers; there is "
            f"{', and '.join(only)}. Leave a column out with ignore_column, or say what it is for."
        )
    return replace(
        targets, vectors=targets.vectors[:, [own.index(name) for name in names]], features=names
    )
