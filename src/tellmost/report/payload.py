"""What the page's script draws from, as JSON inside the page."""

import json
from typing import Any

import numpy as np

from tellmost.shapes import Float

DIGITS = 6  # significant ones: a screen shows fewer

_AS_ESCAPES = {code: f"\\u{code:04x}" for code in (*map(ord, "<>&"), 0x2028, 0x2029)}


def write_payload(values: dict[str, Any]) -> str:
    """JSON that no HTML parser takes for markup, whatever texts are inside."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_AS_ESCAPES)


def shorten(values: Float[np.ndarray, "*n"]) -> list[float]:
    """Numbers to so many digits: a tenth of the bytes of a full float64."""
    return [float(f"{value:.{DIGITS}g}") for value in values]
