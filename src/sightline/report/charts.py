"""Charts as SVG text: no library, no script; colours come from the page's style sheet."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

import numpy as np

from sightline.report.levels import Level
from sightline.shapes import Float, Int

WIDTH, HEIGHT = 640.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 18.0, 14.0, 58.0  # room for tick labels at a phone's letter size
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
BASE = TOP + PLOT_HEIGHT
POINTS = 600  # more than a screen can show of one line
NUMBERED_BARS = 16  # up to so many bars have room for a number below


def draw_uncertainty(
    uncertainty: Float[np.ndarray, " steps"], levels: Sequence[Level], name: str
) -> str:
    """A line from before the first pick to after the last, and a dashed line per level."""
    k = len(uncertainty) - 1
    scale = _ticks(max(float(uncertainty.max()), *(level.value for level in levels), 0.0))
    top = float(scale[-1])
    before, after = uncertainty[[0, -1]]
    about = f"{name}: {before:.4g} before the first pick, {after:.4g} after pick {k:,}"
    marks = "".join(_draw_level(level, top) for level in levels)
    return _frame(about, scale, _draw_line(uncertainty, top) + marks + _number_picks(k), "picks")


def draw_targets(
    variance: Float[np.ndarray, "2 m"],
    numbers: Int[np.ndarray, " m"],
    floors: Float[np.ndarray, " m"] | None,
) -> str:
    """A pair of bars per target, before behind after, with a tick at the floor."""
    scale = _ticks(float(variance.max()))
    top = float(scale[-1])
    step = PLOT_WIDTH / len(numbers)
    bars = "".join(
        _draw_bar(LEFT + i * step, step, variance[:, i], number, top)
        for i, number in enumerate(numbers.tolist())
    )
    if floors is not None:
        bars += "".join(
            f'<path class="floor" d="M{LEFT + (i + 0.1) * step:.1f} {y:.1f}h{0.8 * step:.1f}"/>'
            for i, y in enumerate(_height(floors, top))
        )
    if len(numbers) <= NUMBERED_BARS:
        bars += "".join(
            _text(LEFT + (i + 0.5) * step, BASE + 22, str(number), "middle")
            for i, number in enumerate(numbers.tolist())
        )
    about = f"variance of {len(numbers)} targets before and after the picks"
    return _frame(about, scale, bars, "targets, by remaining variance")


def _draw_line(uncertainty: Float[np.ndarray, " steps"], top: float) -> str:
    k = len(uncertainty) - 1
    kept = np.unique(np.linspace(0, k, min(k + 1, POINTS)).round().astype(int))
    x = LEFT + PLOT_WIDTH * kept / max(k, 1)
    y = _height(uncertainty[kept], top)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    area = f"{LEFT:g},{BASE:g} {points} {x[-1]:.1f},{BASE:g}"
    return (
        f'<polygon class="area" points="{area}"/><polyline class="line" points="{points}"/>'
        f'<circle class="dot" cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="4"/>'
    )


def _number_picks(k: int) -> str:
    step = max(int(_round_step(k / 5)), 1)
    return "".join(
        _text(LEFT + PLOT_WIDTH * t / max(k, 1), BASE + 22, f"{t:,}", "middle")
        for t in range(0, k + 1, step)
    )


def _draw_level(level: Level, top: float) -> str:
    y = float(_height(np.array([level.value]), top)[0])
    kind = level.name.replace(" ", "-")
    return f'<path class="level {kind}" d="M{LEFT:g} {y:.1f}h{PLOT_WIDTH:g}"/>'


def _draw_bar(
    x: float, step: float, pair: Float[np.ndarray, " 2"], number: int, top: float
) -> str:
    before, after = pair
    gap = 0.1 * step
    rects = "".join(
        f'<rect class="{name}" x="{x + gap:.2f}" y="{y:.2f}" width="{step - 2 * gap:.2f}" '
        f'height="{BASE - y:.2f}"/>'
        for name, y in zip(("before", "after"), _height(pair, top), strict=True)
    )
    return f"<g><title>target {number}: {before:.4g} to {after:.4g}</title>{rects}</g>"


def _frame(about: str, scale: Float[np.ndarray, " ticks"], body: str, below: str) -> str:
    """The axes around a chart, and its name for those who cannot see it."""
    grid = ""
    for value, y in zip(scale, _height(scale, float(scale[-1])), strict=True):
        grid += f'<path class="grid" d="M{LEFT:g} {y:.1f}h{PLOT_WIDTH:g}"/>'
        grid += _text(LEFT - 8, y + 5, f"{value:.4g}", "end")
    label = _text(LEFT + PLOT_WIDTH / 2, HEIGHT - 10, below, "middle")
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH:g} {HEIGHT:g}"><title>{escape(about)}</title>'
        f"{grid}{body}{label}</svg>"
    )


def _height(values: Float[np.ndarray, " n"], top: float) -> Float[np.ndarray, " n"]:
    """Where values lie on the page, 0 at the bottom of the plot and ``top`` at its top."""
    return TOP + PLOT_HEIGHT * (1.0 - np.asarray(values) / top)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ticks(value: float) -> Float[np.ndarray, " ticks"]:
    """Up to six round numbers from 0, the last not below ``value``."""
    value = float(f"{value:.6g}")  # 1 plus a rounding error asks for no further step
    step = _round_step(value / 5)
    return step * np.arange(max(ceil(value / step), 1) + 1)


def _round_step(size: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is at least ``size``; 1 for nothing."""
    if size <= 0:
        return 1.0
    power = 10.0 ** floor(log10(size))
    return next((m * power for m in (1, 2, 5) if m * power >= size), 10 * power)
