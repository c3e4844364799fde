"""Objects from the way they are printed: calls of known names with plain values, not evaluated."""

import ast
from collections.abc import Callable, Mapping
from typing import Any

Kinds = Mapping[str, Callable[..., Any]]


def read_object(text: str, kinds: Kinds) -> Any:
    """What prints as ``text``; a TypeError if it is anything but calls of these names.

    A ValueError comes from a kind itself, which explains what is wrong with a value.
    """
    try:
        return _make(ast.parse(text.strip(), mode="eval").body, kinds)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise TypeError(f"{text!r} cannot be read") from error


def _make(node: ast.expr, kinds: Kinds) -> Any:
    if not isinstance(node, ast.Call):
        return _read_value(node)
    if not isinstance(node.func, ast.Name) or node.func.id not in kinds:
        raise TypeError(ast.unparse(node))
    named = {word.arg: _make(word.value, kinds) for word in node.keywords if word.arg is not None}
    if len(named) != len(node.keywords):
        raise TypeError(ast.unparse(node))
    return kinds[node.func.id](*(_make(value, kinds) for value in node.args), **named)


def _read_value(node: ast.expr) -> Any:
    """A number, a word, or a list of such."""
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise TypeError(ast.unparse(node)) from error
