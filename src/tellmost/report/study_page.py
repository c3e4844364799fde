"""A page about a study: a single HTML file with figures, which needs no network and no server."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tellmost.integrations.optuna import SafeSampler, sampler_of, status
from tellmost.integrations.optuna_trials import QUERY, known_safe
from tellmost.report.markup import (
    write_chart,
    write_facts,
    write_list,
    write_section,
    write_small,
)
from tellmost.report.page import import_plotly, write_document
from tellmost.running.writing import check_writable, written_whole
from tellmost.safebo import Query, SafeOptimizer
from tellmost.safebo.calibration import CALIBRATION_LEVELS
from tellmost.safebo.outputs import OBJECTIVE

if TYPE_CHECKING:
    from optuna.study import Study

BLUE, GREEN, ORANGE, RED, GREY = "#0072B2", "#009E73", "#E69F00", "#D55E00", "#8a8a8a"
COLORS = {"safe": "#1a1a1a", "marginal": ORANGE, "violated": RED, "failed": GREY}
SYMBOLS = {"safe": "circle", "marginal": "triangle-up", "violated": "x", "failed": "line-ns-open"}
SLICE, MAP = 101, 41  # values along a slice, and along each side of a map
MOST_PAIRS = 3  # of parameters that are mapped
MOST_STEPS = 40  # trials after which the safe set is measured

DRAW = """
const found = JSON.parse(document.getElementById("payload").textContent);
for (const [name, chart] of Object.entries(found)) {
  const layout = {
    margin: { l: 60, r: 20, t: 10, b: 45 }, template: "plotly_white", legend: { orientation: "h",
    y: -0.25 }, paper_bgcolor: "#fff", font: { size: 12 }, ...chart.layout };
  Plotly.newPlot(name, chart.data, layout, { displayModeBar: false, responsive: true });
}
"""

Chart = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """What the figures show: an optimizer, its study, and the units of its outputs."""

    study: "Study"
    sampler: SafeSampler
    opt: SafeOptimizer
    numbers: list[int]
    units: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        return [OBJECTIVE, *self.sampler.constraints]

    @property
    def box(self) -> Any:
        return self.sampler.box

    def label(self, name: str) -> str:
        """A name with its unit, which Plotly shows as it is."""
        unit = {**self.units, **self.box.units}.get(name, "")
        return escape(f"{name} [{unit}]" if unit else name)

    def base(self) -> dict[str, Any]:
        """The setting through which slices go: the best that is safe, or else a seed."""
        opt = self.opt
        x = opt.best.x if bool(opt.safe_mask.any()) else opt.restore_point
        setting: dict[str, Any] = self.box.decode(opt.points[0] if x is None else x)
        return setting

    def values_of(self, name: str, most: int) -> list[Any]:
        """Values of a parameter in order: all of them if they are few."""
        one = self.box.parameters[name]
        if one.count is not None and one.count <= most:
            return [one.decode(code) for code in one.spread_all()]
        codes = one.spread(torch.linspace(0, 1, most, dtype=torch.float64))
        return list(dict.fromkeys(one.decode(code) for code in codes))

    def varying(self) -> list[str]:
        return [name for name, one in self.box.parameters.items() if one.fixed is None]

    def encode(self, settings: list[dict[str, Any]]) -> np.ndarray:
        return np.stack([self.box.encode(one).numpy() for one in settings])

    def is_safe(self, X: np.ndarray) -> np.ndarray:
        return known_safe(self.opt, self.sampler.constraints, X)


def write_study_page(study: "Study", path: Path, units: Mapping[str, str] | None = None) -> None:
    """Write the page, whole or not at all. ``units`` are those of objective and constraints."""
    plotly = import_plotly()
    check_writable(path, "path")
    sampler = sampler_of(study)
    known = sampler.replay(study)
    shown = Shown(study, sampler, known.optimizer, known.numbers, units or {})
    charts: dict[str, Chart] = {}
    body = _write_summary(shown)
    for title, about, drawn in _sections(shown):
        name = title.lower().replace(" ", "-")
        places = ""
        for number, (heading, chart) in enumerate(drawn):
            charts[f"{name}-{number}"] = chart
            places += write_chart(f"{name}-{number}", about, heading)
        body += write_section(name, title, write_small(about) + places)
    text = write_document(study.study_name, body, charts, plotly.get_plotlyjs(), DRAW)
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="replace")


def _write_summary(shown: Shown) -> str:
    now = status(shown.study)
    facts = [
        ("trials told", str(now["told"])),
        ("best, known to be safe", now["best"] or "none yet"),
        ("points known to be safe", "{:,} of {:,}".format(*now["known_safe"])),
        ("waiting to be told", ", ".join(str(one["trial"]) for one in now["pending"]) or "none"),
    ]
    events = [f"Trial {n} violated a limit." for n in now["violated"]]
    events += [f"Asking is halted by trial {n}." for n in now["halted_by"]]
    for word in ("failed", "abandoned", "notes"):
        events += [f"Trial {n}, {word}: {text}" for n, text in now[word].items()]
    events += [f"Suspect: {text}" for text in now["suspect"].values()]
    return f"<h1>{escape(shown.study.study_name)}</h1>{write_facts(facts)}{write_list(events)}"


def _sections(shown: Shown) -> list[tuple[str, str, list[tuple[str, Chart]]]]:
    """Each section of the page: its title, what it shows, and its charts with headings."""
    history = [(shown.label(n), draw_history(shown, n)) for n in shown.names]
    numeric = [n for n in shown.varying() if not shown.box.parameters[n].choices]
    pairs = list(combinations(numeric, 2))[:MOST_PAIRS]
    slices = [
        (f"{shown.label(n)} over {shown.label(p)}", draw_slice(shown, p, n))
        for p in shown.varying()
        for n in shown.names
    ]
    found = [
        ("Over time", "What was told, the limits, and the bound of the best safe trial.", history),
        ("Slices", "Mean and bounds where one parameter varies, through the best safe point; "
         "green where all limits are kept for sure.", slices),
        ("Safe maps", "Where two parameters vary: the mean of the objective. What is veiled is "
         "not known to be safe.", [("", draw_map(shown, *pair)) for pair in pairs]),
        ("Growth", "The share of the points that are known to be safe.",
         [("", draw_growth(shown))]),
        ("Calibration", "The share of the values within the intervals of each probability. Right "
         "priors are near the diagonal.", [("", draw_calibration(shown))]),
        ("Risk", "What all points together risked, as it was stated when they were asked for.",
         [("", draw_risk(shown))]),
    ]  # fmt: skip
    return [one for one in found if one[2]]


def _told(shown: Shown, xs: list[Any], name: str) -> list[Chart]:
    """Marks of the values that were told of an output, a colour and a shape for each status."""
    marks = []
    trials = list(shown.opt.history)
    for kind, color in COLORS.items():
        rows = [i for i, t in enumerate(trials) if t.status == kind and name in t.values]
        if rows:
            marks.append(
                {
                    "x": [xs[i] for i in rows],
                    "y": [trials[i].values[name] for i in rows],
                    "text": [f"trial {shown.numbers[trials[i].id]}" for i in rows],
                    "mode": "markers",
                    "name": f"told, {kind}",
                    "marker": {"color": color, "symbol": SYMBOLS[kind], "size": 8},
                }
            )
    return marks


def _limits(shown: Shown, name: str) -> list[Chart]:
    """Dashed lines at the limits of a constraint."""
    one = shown.sampler.constraints.get(name)
    line = {"color": RED, "dash": "dash", "width": 1.5}
    across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "line": line}
    limits = [] if one is None else [y for y in one.limits if y is not None]
    return [{**across, "y0": y, "y1": y} for y in limits]


def _layout(shown: Shown, x: str, name: str) -> Chart:
    return {
        "xaxis": {"title": {"text": x}},
        "yaxis": {"title": {"text": shown.label(name)}},
        "shapes": _limits(shown, name),
    }


def draw_history(shown: Shown, name: str) -> Chart:
    """The values of an output, trial by trial."""
    xs = [shown.numbers[one.id] for one in shown.opt.history]
    data = _told(shown, xs, name)
    if name == OBJECTIVE and bool(shown.opt.safe_mask.any()):
        bound = shown.opt.best.bound
        line = {"color": GREEN, "dash": "dot"}
        data.append(
            {"x": xs, "y": [bound] * len(xs), "mode": "lines", "name": "best bound", "line": line}
        )
    return {"data": data, "layout": _layout(shown, "trial", name)}


def draw_slice(shown: Shown, parameter: str, name: str) -> Chart:
    """Mean and bounds of an output over one parameter."""
    base, xs = shown.base(), shown.values_of(parameter, SLICE)
    X = shown.encode([{**base, parameter: x} for x in xs])
    mean, _ = shown.opt.predict(X, name)
    lower, upper = shown.opt.bounds(name, X)
    is_choice = bool(shown.box.parameters[parameter].choices)
    places = [escape(str(x)) for x in xs] if is_choice else xs
    safe = [y if is_safe else None for y, is_safe in zip(mean, shown.is_safe(X), strict=True)]
    known: Chart = {"x": places, "y": safe, "name": "mean, where it is safe"}
    if is_choice:
        up, down = (upper - mean).tolist(), (mean - lower).tolist()
        bars = {"type": "data", "array": up, "arrayminus": down, "color": BLUE}
        middle = {"x": places, "y": mean.tolist(), "mode": "markers", "name": "mean and bounds"}
        data = [{**middle, "error_y": bars, "marker": {"color": BLUE, "size": 9}}]
        data.append({**known, "mode": "markers", "marker": {"color": GREEN, "size": 13}})
    else:
        blue = {"line": {"color": BLUE}}
        shade: Chart = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        shade |= {"x": places, "fillcolor": "rgba(0,114,178,.18)"}
        data = [
            {"y": upper.tolist(), "showlegend": False, **shade},
            {"y": lower.tolist(), "fill": "tonexty", "name": "bounds", **shade},
            {"x": places, "y": mean.tolist(), "mode": "lines", "name": "mean", **blue},
            {**known, "mode": "lines", "line": {"color": GREEN, "width": 5}},
        ]
    settings = [shown.box.decode(t.x)[parameter] for t in shown.opt.history]
    told = _told(shown, [escape(str(s)) if is_choice else s for s in settings], name)
    layout = _layout(shown, shown.label(parameter), name)
    if shown.box.parameters[parameter].log:
        layout["xaxis"]["type"] = "log"
    return {"data": data + told, "layout": layout}


def draw_map(shown: Shown, first: str, second: str) -> Chart:
    """The mean of the objective over two parameters, and what is not known to be safe."""
    base = shown.base()
    xs, ys = shown.values_of(first, MAP), shown.values_of(second, MAP)
    X = shown.encode([{**base, first: x, second: y} for y in ys for x in xs])
    mean, _ = shown.opt.predict(X, OBJECTIVE)
    is_safe = shown.is_safe(X)
    shape = len(ys), len(xs)
    heat = {"type": "heatmap", "x": xs, "y": ys}
    veil = [[None if one else 1 for one in row] for row in is_safe.reshape(shape)]
    grey = [[0, "rgba(120,120,120,.6)"], [1, "rgba(120,120,120,.6)"]]
    settings = [shown.box.decode(t.x) for t in shown.opt.history]
    trials = {
        "x": [one[first] for one in settings],
        "y": [one[second] for one in settings],
        "mode": "markers",
        "name": "trials",
        "marker": {"color": [COLORS[t.status] for t in shown.opt.history], "size": 7},
    }
    data: list[Chart] = [
        {**heat, "z": mean.reshape(shape).tolist(), "colorscale": "Cividis",
         "colorbar": {"title": {"text": shown.label(OBJECTIVE)}}},
        {**heat, "z": veil, "colorscale": grey, "showscale": False, "hoverinfo": "skip"},
        trials,
    ]  # fmt: skip
    layout = _layout(shown, shown.label(first), OBJECTIVE)
    layout["yaxis"]["title"]["text"] = shown.label(second)
    for axis, name in (("xaxis", first), ("yaxis", second)):
        layout[axis]["type"] = "log" if shown.box.parameters[name].log else "linear"
    return {"data": data, "layout": layout}


def draw_growth(shown: Shown) -> Chart:
    """The share of safe points after each trial, replayed."""
    steps, shares = shown.sampler.retrace(shown.study, MOST_STEPS)
    line = {"x": steps, "y": shares, "mode": "lines+markers", "line": {"color": GREEN}}
    axes = {"xaxis": {"title": {"text": "trials"}}, "yaxis": {"title": {"text": "share"}}}
    return {"data": [{**line, "name": "known to be safe"}], "layout": axes}


def draw_calibration(shown: Shown) -> Chart:
    """The share of values within intervals, beside what it should be."""
    levels = list(CALIBRATION_LEVELS)
    verdicts = shown.opt.calibration()
    even = {"x": [0, 1], "y": [0, 1], "mode": "lines", "name": "right", "line": {"color": GREY}}
    data = [even]
    for name, one in verdicts.outputs.items():
        shares = [None if np.isnan(share) else share for share in one.coverage.values()]
        label = f"{escape(name)}: {escape(one.verdict.partition(':')[0])}"
        data.append({"x": levels, "y": shares, "mode": "lines+markers", "name": label})
    axes = {"xaxis": {"title": {"text": "probability"}}, "yaxis": {"title": {"text": "share"}}}
    return {"data": data, "layout": axes}


def draw_risk(shown: Shown) -> Chart:
    """The sum of what the points risked that were given out."""
    given = [one for one in shown.study.trials if QUERY in one.system_attrs]
    risks = [Query.from_json(one.system_attrs[QUERY]).risk for one in given]
    line = {"x": [one.number for one in given], "y": np.cumsum(risks).tolist(), "mode": "lines"}
    axes = {"xaxis": {"title": {"text": "trial"}}, "yaxis": {"title": {"text": "sum of risks"}}}
    return {"data": [{**line, "name": "risk", "line": {"color": ORANGE}}], "layout": axes}
