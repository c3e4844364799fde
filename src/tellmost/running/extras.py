"""Packages that only some calls need, which are imported then."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


def import_extra(module: str, extra: str, need: str) -> Any:
    """The module; or an error that says what needs it, and how its extra is installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{need}; pip install 'tellmost[{extra}]'.") from error


def make_frame(table: Any) -> "pandas.DataFrame":
    """A frame of pandas, of columns by name or of a record per row."""
    return import_extra("pandas", "frame", "to_frame() needs pandas").DataFrame(table)
