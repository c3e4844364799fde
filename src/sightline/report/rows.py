"""What to show for a row."""

from typing import Any


def check_items(items: Any, n: int) -> None:
    if items is not None and len(items) != n:
        raise ValueError(
            f"items must have one entry per pool row, {n}; got {len(items)}. An entry may be None."
        )


def take_item(items: Any, index: int) -> Any:
    """By position, also from a pandas Series with an index of its own."""
    return getattr(items, "iloc", items)[index]
