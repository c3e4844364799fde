"""The figure and the page about a selection."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline.report.levels import find_levels

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
VOID = {"meta", "br", "img", "hr", "input", "link"}


class Page(HTMLParser):
    """Checks that every tag is closed in order; collects texts, titles and the picks' rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append((self.open[-1] if self.open else "", data))
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def texts(self, tag):
        return [data for place, data in self.words if place == tag]

    def table(self, heading):
        """The rows below the header row that starts with ``heading``."""
        start = next(i for i, row in enumerate(self.rows) if row[:1] == [heading])
        width = len(self.rows[start])
        rest = self.rows[start + 1 :]
        stop = next((i for i, row in enumerate(rest) if len(row) != width), len(rest))
        return rest[:stop]


@pytest.fixture
def problem():
    generator = np.random.default_rng(0)
    pool = generator.normal(size=(40, 8))
    pool[:, 6:] = 0.0  # the pool spans six of eight dimensions, so the floor is positive
    return pool, generator.normal(size=(5, 8))


def write(chosen, tmp_path, *arguments) -> Page:
    chosen.report(tmp_path / "page.html", *arguments)
    return Page((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_the_page_shows_every_pick_with_its_gain_and_nearest_target(problem, tmp_path):
    pool, targets = problem
    chosen = sl.select(pool, targets, 6, floor=True, normalize="center")
    rows = write(chosen, tmp_path, pool, targets).table("rank")
    centred, aims = pool - pool.mean(axis=0), targets - pool.mean(axis=0)
    cosines = (centred @ aims.T) / np.linalg.norm(centred, axis=1)[:, None]
    cosines = (cosines / np.linalg.norm(aims, axis=1))[chosen.indices]
    assert [int(row[0]) for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [int(row[1]) for row in rows] == chosen.indices.tolist()
    assert [float(row[2]) for row in rows] == pytest.approx(chosen.gains, rel=1e-3)
    assert [float(row[3]) for row in rows] == pytest.approx(chosen.uncertainty[1:], rel=1e-3)
    assert [int(row[4]) for row in rows] == cosines.argmax(axis=1).tolist()
    assert [float(row[5]) for row in rows] == pytest.approx(cosines.max(axis=1), abs=6e-4)


def test_the_page_names_itself_its_charts_and_its_columns(problem, tmp_path):
    page = write(sl.select(*problem, 6, floor=True), tmp_path, *problem)
    assert page.texts("h1") == ["6 picks by vtl"]
    assert page.texts("title")[0] == "Sightline: 6 picks by vtl"
    charts = [attrs for tag, attrs in page.tags if tag == "svg" and "aria-hidden" not in attrs]
    assert len(charts) == 2 and all(attrs["role"] == "img" for attrs in charts)
    assert any(title.startswith("mean target variance: ") for title in page.texts("title"))
    headers = [attrs for tag, attrs in page.tags if tag == "th"]
    assert headers and all(attrs["scope"] in ("col", "row") for attrs in headers)


def test_the_page_loads_nothing_and_runs_nothing(problem, tmp_path):
    page = write(sl.select(*problem, 3), tmp_path, *problem)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"}
    assert not any({"src", "href", "onclick"} & set(attrs) for _, attrs in page.tags)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "url(" not in text and "@import" not in text and "http" not in text


def test_items_are_escaped_and_none_is_left_blank(problem, tmp_path):
    pool, targets = problem
    chosen = sl.select(pool, targets, 3)
    items: list[object] = ["other"] * len(pool)
    items[chosen.indices[0]] = "<script>alert('x & y')</script>"
    items[chosen.indices[1]] = None
    items[chosen.indices[2]] = "long " * 1_000
    page = write(chosen, tmp_path, pool, targets, items)
    assert "script" not in {tag for tag, _ in page.tags}
    rows = page.table("rank")
    assert rows[0][2] == "<script>alert('x & y')</script>"
    assert rows[1][2] == ""
    assert len(rows[2][2]) < 300 and rows[2][2].endswith("…")
    assert "other" not in (tmp_path / "page.html").read_text()


def test_items_of_a_series_are_taken_by_position(problem, tmp_path):
    pandas = pytest.importorskip("pandas")
    pool, targets = problem
    chosen = sl.select(pool, targets, 3)
    names = pandas.Series([f"item {i}" for i in range(40)], index=range(100, 140))
    rows = write(chosen, tmp_path, pool, targets, names).table("rank")
    assert [row[2] for row in rows] == [f"item {i}" for i in chosen.indices]


def test_a_wrong_number_of_items_is_refused(problem, tmp_path):
    with pytest.raises(ValueError, match="one entry per pool row, 40; got 3"):
        write(sl.select(*problem, 3), tmp_path, *problem, ["a", "b", "c"])


def test_another_pool_is_refused(problem, tmp_path):
    pool, targets = problem
    with pytest.raises(ValueError, match="fingerprint differs"):
        write(sl.select(pool, targets, 3), tmp_path, pool + 1.0, targets)


@pytest.mark.parametrize("count", [None, 4])
def test_other_targets_are_refused(problem, tmp_path, count):
    pool, targets = problem
    with pytest.raises(ValueError, match="targets"):
        write(sl.select(pool, targets, 3), tmp_path, pool, count and targets[:count])


def test_the_page_accepts_files_as_select_does(problem, tmp_path):
    pool, targets = problem
    np.save(tmp_path / "pool.npy", pool)
    np.save(tmp_path / "targets.npy", targets)
    chosen = sl.select(tmp_path / "pool.npy", tmp_path / "targets.npy", 3)
    page = write(chosen, tmp_path, tmp_path / "pool.npy", str(tmp_path / "targets.npy"))
    assert len(page.table("rank")) == 3


def test_a_failed_write_leaves_the_old_page_and_nothing_else(problem, tmp_path, monkeypatch):
    chosen = sl.select(*problem, 3)
    (tmp_path / "page.html").write_text("old")

    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        chosen.report(tmp_path / "page.html", *problem)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"


def test_a_selection_without_targets_has_a_page_without_them(problem, tmp_path):
    pool, _ = problem
    page = write(sl.select(pool, None, 3, rule="undirected-itl"), tmp_path, pool, None)
    assert "Variance of each target" not in page.texts("h2")
    assert len(page.table("rank")[0]) == 4


def test_a_precomputed_kernel_has_a_page_without_similarities(problem, tmp_path):
    pool, _ = problem
    kernel = sl.kernels.Precomputed(pool @ pool.T)
    chosen = sl.select(np.arange(30), np.arange(30, 40), 3, kernel=kernel)
    page = write(chosen, tmp_path, np.arange(30), np.arange(30, 40))
    assert len(page.table("rank")[0]) == 4


def test_with_another_kernel_the_cosine_is_named_as_that_of_the_rows(problem, tmp_path):
    chosen = sl.select(*problem, 3, kernel=sl.kernels.Gaussian(1.0))
    page = write(chosen, tmp_path, *problem)
    assert "cosine of the rows" in page.texts("th")
    assert "cosine similarity" not in page.texts("th")


def test_a_selection_of_nothing_still_has_a_page_and_a_figure(problem, tmp_path):
    chosen = sl.select(*problem, min_gain=1e6)
    page = write(chosen, tmp_path, *problem)
    assert "Nothing was picked." in page.texts("p")
    assert len(chosen.plot().axes) == 2


def test_long_lists_are_cut_and_say_so(tmp_path):
    generator = np.random.default_rng(0)
    pool, targets = generator.normal(size=(1_005, 3)), generator.normal(size=(201, 3))
    chosen = sl.select(pool, targets, 1_001, rule=sl.rules.Random(0))
    page = write(chosen, tmp_path, pool, targets)
    assert len(page.table("rank")) == 1_000
    text = " ".join(page.texts("p"))
    assert "The first 1,000 of 1,001 picks." in text
    assert "The 200 most uncertain of 201 targets." in text


def test_the_targets_helped_least_come_first(problem, tmp_path):
    chosen = sl.select(*problem, 3)
    rows = write(chosen, tmp_path, *problem).table("target")
    before, after = chosen.target_variance
    assert [int(row[0]) for row in rows] == np.argsort(1 - after / before).tolist()


def test_the_levels_are_weighted_as_the_targets_are(problem):
    weights = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    chosen = sl.select(*problem, 3, target_weights=weights, floor=True)
    whole, floor = find_levels(chosen)
    assert whole.value == pytest.approx(weights @ chosen.whole_pool / 10)
    assert floor.value == pytest.approx(weights @ chosen.floor / 10)


def test_the_page_shows_notes(problem, tmp_path):
    with pytest.warns(UserWarning, match="effective rank"):
        chosen = sl.select(*problem, 20, noise_ratio=0.01)
    assert chosen.settings["notes"][0] in write(chosen, tmp_path, *problem).texts("li")


def test_the_figure_shows_uncertainty_levels_and_gains(problem):
    figure = pytest.importorskip("matplotlib.figure")
    chosen = sl.select(*problem, 6, rule="itl-y", floor=True)
    drawn = chosen.plot()
    assert isinstance(drawn, figure.Figure)
    above, below = drawn.axes
    line, whole, floor = above.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(7))
    np.testing.assert_array_equal(line.get_ydata(), chosen.uncertainty)
    np.testing.assert_allclose(whole.get_ydata(), chosen.whole_pool.mean())
    np.testing.assert_allclose(floor.get_ydata(), chosen.floor.mean())
    np.testing.assert_array_equal(below.lines[0].get_ydata(), chosen.gains)
    assert "nats about the targets" in below.get_title(loc="left")


def test_a_floor_of_zero_is_called_uninformative(problem):
    pool, targets = problem
    targets = targets * (np.arange(8) < 6)
    labels = [text.get_text() for text in _legend(sl.select(pool, targets, 3, floor=True))]
    assert labels[1] == "floor: 0, uninformative"


def test_a_floor_that_is_a_bound_says_at_most():
    generator = np.random.default_rng(0)
    pool, targets = generator.normal(size=(2_001, 6)), generator.normal(size=(2, 6))
    chosen = sl.select(pool, targets, 2, kernel=sl.kernels.Laplace(1.0), floor=True)
    assert chosen.settings["floor_is_exact"] is False
    assert all(" at most " in text.get_text() for text in _legend(chosen))


def test_a_figure_without_matplotlib_says_what_to_install(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"sightline\[plot\]"):
        sl.select(*problem, 3).plot()


def _legend(chosen):
    pytest.importorskip("matplotlib")
    return chosen.plot().axes[0].get_legend().get_texts()


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs the Debian package chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_without_network_or_errors(problem, tmp_path, scheme):
    playwright = pytest.importorskip("playwright.sync_api")
    pool, targets = problem
    items = [f"document {i} " + "unbreakable" * 12 for i in range(len(pool))]
    sl.select(pool, targets, 20, floor=True).report(tmp_path / "r.html", pool, targets, items)
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
        errors, requests = [], []
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((tmp_path / "r.html").as_uri())
        assert page.get_by_role("heading", level=1).is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.screenshot(path=tmp_path / "page.png")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        browser.close()
    brightness = np.mean([int(part) for part in re.findall(r"\d+", background)[:3]])
    assert (brightness > 128) == (scheme == "light")
    assert errors == []
    assert requests == [(tmp_path / "r.html").as_uri()]
    assert (tmp_path / "page.png").stat().st_size > 10_000
