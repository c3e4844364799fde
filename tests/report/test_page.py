"""The figure and the page about a selection."""

import base64
import io
import json
import sys
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import tellmost as tm
from tellmost.report.levels import find_levels

pytest.importorskip("plotly")

VOID = {"meta", "br", "img", "hr", "input", "link"}


class Page(HTMLParser):
    """Checks that every tag is closed in order; collects texts and tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append((self.open[-1] if self.open else "", data))
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data

    def texts(self, tag):
        return [data for place, data in self.words if place == tag]

    @property
    def payload(self):
        return json.loads(next(text for text in self.texts("script") if text.startswith("{")))

    def column(self, name):
        """All cells that the script shows below a heading of the table of picks."""
        columns = self.payload["picks"]["columns"]
        return next(column["cells"] for column in columns if column["name"] == name)

    def table(self, heading):
        """The rows below the header row that starts with ``heading``."""
        rows = next(rows for rows in self.tables if rows[0][:1] == [heading])
        return rows[1:]


@pytest.fixture
def problem():
    generator = np.random.default_rng(0)
    pool = generator.normal(size=(40, 8))
    pool[:, 6:] = 0.0  # the pool spans six of eight dimensions, so the floor is positive
    return pool, generator.normal(size=(5, 8))


def write(chosen, tmp_path, *arguments) -> Page:
    chosen.report(tmp_path / "page.html", *arguments)
    return Page((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_the_table_shows_each_pick_with_its_gain_and_nearest_target(problem, tmp_path):
    pool, targets = problem
    chosen = tm.select(pool, targets, 6, normalize="center", kernel="linear")
    page = write(chosen, tmp_path, pool, targets)
    rows = page.table("rank")
    centred, aims = pool - pool.mean(axis=0), targets - pool.mean(axis=0)
    cosines = (centred @ aims.T) / np.linalg.norm(centred, axis=1)[:, None]
    cosines = (cosines / np.linalg.norm(aims, axis=1))[chosen.indices]
    assert [int(row[0]) for row in rows] == page.column("rank") == [1, 2, 3, 4, 5, 6]
    assert [int(row[1]) for row in rows] == page.column("row") == chosen.indices.tolist()
    assert [float(row[2]) for row in rows] == pytest.approx(chosen.gains, rel=1e-3)
    assert page.column("gain") == pytest.approx(chosen.gains, rel=1e-5)
    assert [int(row[4]) for row in rows] == cosines.argmax(axis=1).tolist()
    assert [float(row[5]) for row in rows] == pytest.approx(cosines.max(axis=1), abs=6e-4)
    assert page.column("cosine similarity") == pytest.approx(cosines.max(axis=1), abs=1e-5)


def test_the_header_says_what_the_page_is_for_and_about_which_files(problem, tmp_path):
    np.save(tmp_path / "pool.npy", problem[0])
    np.save(tmp_path / "val.npy", problem[1])
    files = str(tmp_path / "pool.npy"), tmp_path / "val.npy"
    chosen = tm.select(*files, 6, kernel="linear")
    words = {"title": "What <b>to</b> label", "purpose": "For <i>us</i> in May."}
    chosen.report(tmp_path / "page.html", *files, **words)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "".join(page.texts("h1")) == "What <b>to</b> label"
    today = date.today()
    expected = f"6 picks by vtl · pool.npy · val.npy · {today.day} {today:%B %Y}"
    assert expected in page.texts("p") and words["purpose"] in page.texts("p")


def test_picks_stand_below_the_target_that_they_are_nearest_to(problem, tmp_path):
    pool, targets = problem
    chosen = tm.select(pool, targets, 25, kernel="linear")
    names = [f"<i>aim</i> {number}" for number in range(len(targets))]
    items = [f"item {number}" for number in range(len(pool))]
    page = write(chosen, tmp_path, pool, targets, items, names)
    titles = [text.strip() for text in page.texts("summary") if text.startswith("<i>aim")]
    assert titles == [names[number] for number in dict.fromkeys(chosen.nearest_target.tolist())]
    members = [text for text in page.texts("li") if text.startswith("item ")]
    by_target = np.argsort([titles.index(names[n]) for n in chosen.nearest_target], kind="stable")
    most = np.bincount(chosen.nearest_target).max()
    assert most <= 10 and members == [items[i] for i in chosen.indices[by_target]]
    ranks = [int(attrs["value"]) for tag, attrs in page.tags if tag == "li" and "value" in attrs]
    assert ranks == (by_target + 1).tolist()
    served = page.column("serves most")
    assert all(some.startswith("<i>aim</i> ") for some in served if some)


def test_images_stand_in_the_page_as_small_copies(problem, tmp_path):
    image = pytest.importorskip("PIL.Image")
    noise = np.random.default_rng(0).integers(0, 255, (900, 1200, 3), dtype=np.uint8)
    image.fromarray(noise).save(tmp_path / "large.png")
    chosen = tm.select(*problem, 5, kernel="linear")
    images = [tmp_path / "large.png"] * 40
    images[chosen.indices[1]] = None
    images[chosen.indices[2]] = noise[:50, :60, 0]
    aims = [str(tmp_path / "large.png")] * len(problem[1])
    target = tmp_path / "page.html"
    chosen.report(target, *problem, images=images, target_images=aims)
    page = Page(target.read_text(encoding="utf-8"))
    shown = page.column("image")
    assert [bool(some) for some in shown] == [True, False, True, True, True]
    data = base64.b64decode(shown[0].removeprefix("data:image/jpeg;base64,"))
    assert image.open(io.BytesIO(data)).size == (96, 72) and len(data) < 10_000
    sources = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
    assert set(sources) <= {*shown, *sources[:0]} | {shown[0]} and len(sources) >= 8
    bare = tmp_path / "bare.html"
    chosen.report(bare, *problem)
    assert target.stat().st_size - bare.stat().st_size < 200_000
    (tmp_path / "broken.png").write_bytes(b"no image")
    images[chosen.indices[0]] = tmp_path / "broken.png"
    images[chosen.indices[3]] = tmp_path / "gone.png"
    said = "2 images could not be read; the first is broken.png: cannot identify"
    with pytest.warns(UserWarning, match=said):
        chosen.report(target, *problem, images=images)
    page = Page(target.read_text(encoding="utf-8"))
    assert [bool(some) for some in page.column("image")] == [False, False, True, False, True]
    assert any(said in some for some in page.texts("p"))
    images[chosen.indices[0]] = noise[:5, :6] / 2
    with pytest.raises(ValueError, match=r"that of row \d+, ndarray, cannot be read"):
        chosen.report(target, *problem, images=images)
    with pytest.raises(ValueError, match="images must have one entry per pool row, 40; got 2"):
        chosen.report(target, *problem, images=images[:2])


def test_the_page_has_its_six_panels_in_order_with_words_for_its_charts(problem, tmp_path):
    page = write(tm.select(*problem, 6, kernel="linear"), tmp_path, *problem)
    assert page.texts("h1") == ["6 picks by vtl"]
    assert page.texts("title")[0] == "Tellmost: 6 picks by vtl"
    sections = [attrs["id"] for tag, attrs in page.tags if tag == "section"]
    assert sections == ["summary", "curve", "picks", "map", "targets", "health", "settings"]
    charts = [attrs for _, attrs in page.tags if attrs.get("class") == "chart"]
    assert len(charts) == 5 and all(attrs["role"] == "img" for attrs in charts)
    assert charts[0]["aria-label"].startswith("mean target variance: ")
    headers = [attrs for tag, attrs in page.tags if tag == "th"]
    assert headers and all(attrs["scope"] in ("col", "row") for attrs in headers)


def test_the_summary_says_what_was_done_how_and_what_is_left(problem, tmp_path):
    chosen = tm.select(*problem, 6, normalize="unit", noise_ratio=2.0, kernel="linear")
    text = " ".join(write(chosen, tmp_path, *problem).texts("p"))
    before, after = chosen.uncertainty[[0, -1]]
    whole = tm.select(
        *problem, 6, normalize="unit", noise_ratio=2.0, floor=True, kernel="linear"
    ).whole_pool.mean()
    assert "Of 40 candidates 6 were picked by vtl to learn about 5 targets." in text
    assert f"went from {before:.4g} to {after:.4g}" in text
    assert f"Observing the whole pool would leave {whole:.4g}" in text
    left = f"{chosen.uncertainty[-1] - whole:.4g}"
    assert f"What this pool can still tell about the targets is another fall of {left}." in text
    assert "stop" not in text
    assert "= 2 × the candidates' mean prior variance; kernel Linear()" in text
    assert "Rows were scaled to unit length." in text
    assert "by construction" in text and "tellmost compare" in text


def test_the_page_loads_nothing(problem, tmp_path):
    page = write(tm.select(*problem, 3, kernel="linear"), tmp_path, *problem)
    assert not {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object"}
    links = [attrs["href"] for _, attrs in page.tags if "href" in attrs]
    assert links and all(link.startswith("#") for link in links)
    assert not any({"src", "onclick"} & set(attrs) for _, attrs in page.tags)
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert('x & y')</script>",
        "</script><img src=x onerror=alert(1)>",
        "<!--<script>",
        "<b>bold</b> &lt;i&gt; &amp;",
        "line \u2028 paragraph \u2029",
        "\ud800 alone",
    ],
)
def test_an_item_of_markup_stays_text(problem, tmp_path, text):
    pool, targets = problem
    chosen = tm.select(pool, targets, 3, kernel="linear")
    tags = [tag for tag, _ in write(chosen, tmp_path, pool, targets, ["plain"] * 40).tags]
    page = write(chosen, tmp_path, pool, targets, [text] * 40)
    shown = text.replace("\ud800", "?")
    assert [tag for tag, _ in page.tags] == tags
    assert page.table("rank")[0][2] == shown
    assert page.column("item") == [shown] * 3
    assert page.payload["map"]["pool"]["texts"] == [shown] * 40


def test_long_items_are_cut_and_none_is_left_blank(problem, tmp_path):
    pool, targets = problem
    chosen = tm.select(pool, targets, 3, kernel="linear")
    items: list[object] = ["other"] * len(pool)
    items[chosen.indices[1]] = None
    items[chosen.indices[2]] = "long " * 1_000
    rows = write(chosen, tmp_path, pool, targets, items).table("rank")
    assert rows[1][2] == ""
    assert len(rows[2][2]) < 300 and rows[2][2].endswith("…")


def test_items_of_a_series_are_taken_by_position(problem, tmp_path):
    pandas = pytest.importorskip("pandas")
    pool, targets = problem
    chosen = tm.select(pool, targets, 3, kernel="linear")
    names = pandas.Series([f"item {i}" for i in range(40)], index=range(100, 140))
    rows = write(chosen, tmp_path, pool, targets, names).table("rank")
    assert [row[2] for row in rows] == [f"item {i}" for i in chosen.indices]


def test_a_wrong_number_of_items_is_refused(problem, tmp_path):
    with pytest.raises(ValueError, match="one entry per pool row, 40; got 3"):
        write(tm.select(*problem, 3, kernel="linear"), tmp_path, *problem, ["a", "b", "c"])


def test_another_pool_is_refused(problem, tmp_path):
    pool, targets = problem
    with pytest.raises(ValueError, match="fingerprint differs"):
        write(tm.select(pool, targets, 3, kernel="linear"), tmp_path, pool + 1.0, targets)


@pytest.mark.parametrize("count", [None, 4])
def test_other_targets_are_refused(problem, tmp_path, count):
    pool, targets = problem
    with pytest.raises(ValueError, match="targets"):
        write(
            tm.select(pool, targets, 3, kernel="linear"), tmp_path, pool, count and targets[:count]
        )


def test_the_page_accepts_files_as_select_does(problem, tmp_path):
    pool, targets = problem
    np.save(tmp_path / "pool.npy", pool)
    np.save(tmp_path / "targets.npy", targets)
    chosen = tm.select(tmp_path / "pool.npy", tmp_path / "targets.npy", 3, kernel="linear")
    page = write(chosen, tmp_path, tmp_path / "pool.npy", str(tmp_path / "targets.npy"))
    assert len(page.table("rank")) == 3


def test_a_failed_write_leaves_the_old_page_and_nothing_else(problem, tmp_path, monkeypatch):
    chosen = tm.select(*problem, 3, kernel="linear")
    (tmp_path / "page.html").write_text("old")

    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        chosen.report(tmp_path / "page.html", *problem)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"


def test_a_page_is_written_to_no_file_of_another_kind(problem, tmp_path):
    chosen = tm.select(*problem, 3, kernel="linear")
    with pytest.raises(ValueError, match=r"path must end in \.html.*got 'page\.pdf'"):
        chosen.report(tmp_path / "page.pdf", *problem)
    assert not any(tmp_path.iterdir())


def test_a_selection_without_targets_has_a_page_that_says_so(problem, tmp_path):
    pool, _ = problem
    page = write(
        tm.select(pool, None, 3, rule="undirected-itl", kernel="linear"), tmp_path, pool, None
    )
    text = " ".join(page.texts("p"))
    assert "The selection had no targets: its uncertainty is that of the candidates." in text
    assert "Other methods, and the worst target, are not shown: the selection had no" in text
    assert page.payload["targets"] is None and list(page.payload["curves"]["mean"]) == ["own"]
    assert page.table("rank")[0] == ["1", *page.table("rank")[0][1:]]
    assert len(page.table("rank")[0]) == 3


def test_a_precomputed_kernel_has_a_page_without_a_map(problem, tmp_path):
    pool, _ = problem
    kernel = tm.kernels.Precomputed(pool @ pool.T)
    chosen = tm.select(np.arange(30), np.arange(30, 40), 3, kernel=kernel)
    page = write(chosen, tmp_path, np.arange(30), np.arange(30, 40))
    assert page.column("correlation") == pytest.approx(chosen.similarity, abs=1e-5)
    assert page.payload["map"] is None
    assert {"own", "random", "top-k", "mmr"} <= set(page.payload["curves"]["worst"])


def test_what_cannot_be_computed_is_left_out_and_the_page_says_why(problem, tmp_path):
    chosen = tm.select(
        *problem, 3, kernel=tm.kernels.Linear(2 * torch.eye(8, dtype=torch.float64))
    )
    chosen.save(tmp_path / "picks.tellmost")
    loaded = tm.Selection.load(tmp_path / "picks.tellmost")
    page = write(loaded, tmp_path, *problem)
    reason = "the kernel Linear(8-d) is not kept in the file"
    assert any(reason in text for text in page.texts("p"))
    assert f"Not compared: {reason}." in page.texts("td")
    assert list(page.payload["curves"]["mean"]) == ["own"]
    assert "serves most" not in page.texts("th")


def test_limits_are_said_to_bind_this_selection_alone(problem, tmp_path):
    chosen = tm.select(*problem, 4, groups=np.arange(40) // 4, max_per_group=1, kernel="linear")
    text = " ".join(write(chosen, tmp_path, *problem).texts("p"))
    assert "The other methods choose without max_per_group" in text
    assert "All three selections are made without the limits." in text


def test_the_page_without_plotly_says_what_to_install(problem, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"tellmost\[report\]"):
        tm.select(*problem, 3, kernel="linear").report(tmp_path / "page.html", *problem)


def test_with_another_kernel_the_similarity_is_a_correlation(problem, tmp_path):
    chosen = tm.select(*problem, 3, kernel=tm.kernels.Gaussian(1.0))
    page = write(chosen, tmp_path, *problem)
    assert "correlation" in page.texts("th")
    assert "cosine similarity" not in page.texts("th")


def test_a_selection_of_nothing_still_has_a_page_and_a_figure(problem, tmp_path):
    chosen = tm.select(*problem, min_gain=1e6, kernel="linear")
    page = write(chosen, tmp_path, *problem)
    assert "Nothing was picked." in page.texts("p")
    assert len(chosen.plot().axes) == 2


def test_long_lists_are_cut_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr("tellmost.report.curves.RETRACED", 30)
    monkeypatch.setattr("tellmost.report.page.RETRACED", 30)
    monkeypatch.setattr("tellmost.report.panels.SHOWN_PICKS", 30)
    monkeypatch.setattr("tellmost.report.panels.MAP_ROWS", 60)
    generator = np.random.default_rng(0)
    pool, targets = generator.normal(size=(100, 3)), generator.normal(size=(201, 3))
    chosen = tm.select(pool, targets, 40, kernel="linear")
    page = write(chosen, tmp_path, pool, targets)
    assert len(page.table("rank")) == 25
    assert page.column("rank") == list(range(1, 31))
    curves = page.payload["curves"]
    assert curves["mean"]["own"]["x"][-1] == 40 and curves["worst"]["own"]["x"][-1] == 30
    assert len(page.payload["map"]["pool"]["x"]) == 60
    assert len(page.payload["targets"]["numbers"]) == 200
    text = " ".join(page.texts("p"))
    assert "The first 30 of 40 picks." in text
    assert "Other methods and the worst target: the first 30 picks." in text
    assert "Overlap of the first 30 picks" in text
    assert "The 200 most uncertain of 201 targets." in text
    assert "Shown: 60 of 100 pool rows, drawn at random." in text


def test_the_targets_that_the_pool_helps_least_are_named_as_a_hint(problem, tmp_path):
    chosen = tm.select(*problem, 3, floor=True, kernel="linear")
    page = write(chosen, tmp_path, *problem)
    share = chosen.whole_pool / chosen.target_variance[0]
    assert [int(row[0]) for row in page.table("target")] == np.argsort(-share).tolist()
    assert any("A hint: the pool helps these targets least." in text for text in page.texts("p"))


def test_the_levels_are_weighted_as_the_targets_are(problem):
    weights = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    chosen = tm.select(*problem, 3, target_weights=weights, floor=True, kernel="linear")
    whole, floor = find_levels(chosen)
    assert whole.value == pytest.approx(weights @ chosen.whole_pool / 10)
    assert floor.value == pytest.approx(weights @ chosen.floor / 10)


def test_the_page_shows_notes(problem, tmp_path):
    with pytest.warns(UserWarning, match="effective rank"):
        chosen = tm.select(*problem, 20, noise_ratio=0.01, kernel="linear")
    assert chosen.settings["notes"][0] in write(chosen, tmp_path, *problem).texts("li")


def test_the_figure_shows_uncertainty_levels_and_gains(problem):
    figure = pytest.importorskip("matplotlib.figure")
    chosen = tm.select(*problem, 6, rule="itl-y", floor=True, kernel="linear")
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
    labels = [
        text.get_text()
        for text in _legend(tm.select(pool, targets, 3, floor=True, kernel="linear"))
    ]
    assert labels[1] == "floor: 0, uninformative"


def test_a_floor_that_is_a_bound_says_at_most():
    generator = np.random.default_rng(0)
    pool, targets = generator.normal(size=(2_001, 6)), generator.normal(size=(2, 6))
    chosen = tm.select(pool, targets, 2, kernel=tm.kernels.Laplace(1.0), floor=True)
    assert chosen.settings["floor_is_exact"] is False
    assert all(" at most " in text.get_text() for text in _legend(chosen))


def test_a_figure_without_matplotlib_says_what_to_install(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"tellmost\[plot\]"):
        tm.select(*problem, 3, kernel="linear").plot()


def _legend(chosen):
    pytest.importorskip("matplotlib")
    return chosen.plot().axes[0].get_legend().get_texts()


def test_targets_as_examples_are_shown_with_the_rows_that_stand_for_them(tmp_path):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 6))
    pool = np.repeat(centres, 20, axis=0) + 0.4 * rng.normal(size=(240, 6))
    targets = centres[0] + 0.4 * rng.normal(size=(8, 6))
    chosen = tm.select(pool, targets, 10)
    found = chosen.settings["examples"]
    page = write(chosen, tmp_path, pool, targets)
    text = " ".join(page.texts("p"))
    assert f"{found['rows']:,} rows of the pool, which the map shows, stand for 8 targets" in text
    before, after = chosen.target_variance.mean(axis=1)
    assert f"That of the given targets went from {before:.4g} to {after:.4g}." in text
    curves = page.payload["curves"]["mean"]
    assert curves["examples"]["y"] == pytest.approx(chosen.uncertainty, rel=1e-4)
    assert curves["own"]["y"][-1] == pytest.approx(after, rel=1e-4)
    # p(x) > 1 / (n + m), by its definition on the centred rows of unit length
    mean = pool.mean(axis=0)
    unit = [(X - mean) / np.linalg.norm(X - mean, axis=1)[:, None] for X in (pool, targets)]
    Z = np.concatenate(unit)
    distances = ((Z[:, None] - unit[1]) ** 2).sum(axis=2)
    like = np.exp(-distances / (2 * found["bandwidth"] ** 2))
    p = (like / like.sum(axis=0)).mean(axis=1)[:240]
    assert page.payload["map"]["examples"]["numbers"] == np.flatnonzero(p * 248 > 1).tolist()
