"""Array shapes in annotations.

With jaxtyping installed (the tests), ``Float[Tensor, "n d"]`` is checked; without it
the annotation is just ``Tensor``, so the core depends on torch and numpy only.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped
else:
    try:
        from jaxtyping import Bool, Float, Int, Shaped
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, item: Any) -> Any:
                return item[0]

        Bool = Float = Int = Shaped = _Unchecked

__all__ = ["Bool", "Float", "Int", "Shaped"]
