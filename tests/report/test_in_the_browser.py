"""The page in a browser: it opens from a file, loads nothing, and what it shows can be used."""

import re
from pathlib import Path

import numpy as np
import pytest

import tellmost as tm

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs the Debian package chromium"),
]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = [
    "<script>window.hit=1</script>",
    "</script><img src=x onerror='window.hit=2'>",
    '<a href="javascript:window.hit=3">link</a>',
    "<b>bold</b> &lt;i&gt; &amp; %{x} $x^2$",
    "unbreakable" * 14,
]
CHARTS = ("curve-mean", "curve-worst", "map-chart", "targets-variance", "targets-closeness")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Seventy picks, the first of them hostile; the floor is positive."""
    pytest.importorskip("plotly")
    generator = np.random.default_rng(0)
    pool, targets = generator.normal(size=(300, 8)), generator.normal(size=(12, 8))
    pool[:, 7] = 0.0
    chosen = tm.select(pool, targets, 70, noise_ratio=2.0, kernel="linear")
    items = [f"document {i}" for i in range(300)]
    for pick, text in zip(chosen.indices, HOSTILE, strict=False):
        items[pick] = text
    path = tmp_path_factory.mktemp("report") / "r.html"
    names = [HOSTILE[i % len(HOSTILE)] for i in range(12)]
    chosen.report(path, pool, targets, items, names)
    return chosen, path


@pytest.fixture
def opened(browser, written):
    """Opens the page, and sees to it that it has neither complained nor asked for anything."""
    errors, requests, pages = [], [], []

    def open_page(**options):
        page = browser.new_page(**options)
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(written[1].as_uri())
        pages.append(page)
        return page

    yield open_page
    assert [page.evaluate("window.hit") for page in pages] == [None] * len(pages)
    for page in pages:
        page.close()
    assert errors == []
    assert set(requests) == {written[1].as_uri()}


def cells(page, column):
    return page.locator(f"#picks-table tbody tr > :nth-child({column})").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1600])
def test_all_panels_are_there_and_fit_the_screen(opened, width, scheme, tmp_path):
    page = opened(viewport={"width": width, "height": 800}, color_scheme=scheme)
    for name in ("summary", "curve", "picks", "map", "targets", "health"):
        assert page.locator(f"section#{name} h2").is_visible()
    for name in CHARTS:
        box = page.locator(f"#{name} .main-svg").first.bounding_box()
        assert box["width"] > 200 and box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)"
    assert page.evaluate(f"{wide}.length") == 0
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_dark_and_light_follow_the_reader_also_in_the_charts(opened):
    page = opened(viewport={"width": 900, "height": 800}, color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    chart = "getComputedStyle(document.querySelector('#curve-mean .main-svg')).background"
    for scheme, is_right in (("light", lambda fill: fill > 200), ("dark", lambda fill: fill < 60)):
        page.emulate_media(color_scheme=scheme)
        for _ in range(100):  # charts are drawn anew a moment later
            fills = [brightness(page.evaluate(what)) for what in (paper, chart)]
            if all(map(is_right, fills)):
                break
            page.wait_for_timeout(50)
        assert all(map(is_right, fills)), (scheme, fills)


def brightness(color):
    return np.mean([float(part) for part in re.findall(r"\d+", color)[:3]])


def test_a_print_is_light_and_as_wide_as_paper(opened, tmp_path):
    page = opened(viewport={"width": 1600, "height": 800}, color_scheme="dark")
    page.evaluate(
        """addEventListener("beforeprint", () => {
            window.printed = [...document.querySelectorAll(".chart")].map((chart) =>
                [chart.querySelector(".main-svg").getBoundingClientRect().width,
                 getComputedStyle(chart.querySelector(".main-svg")).background]);
        })"""
    )
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    printed = page.evaluate("window.printed")
    assert len(printed) == len(CHARTS)
    assert all(width <= 680 and brightness(color) > 200 for width, color in printed)
    wide = page.locator("#targets-variance .main-svg").first.bounding_box()["width"]
    assert wide > 680  # and back to the screen
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1600


def test_picks_sort_by_each_heading_also_by_keyboard(opened, written):
    chosen, _ = written
    page = opened(viewport={"width": 1200, "height": 800})
    assert cells(page, 1) == [str(rank) for rank in range(1, 26)]
    row = page.get_by_role("columnheader", name="row", exact=True)
    row.get_by_role("button").click()
    assert row.get_attribute("aria-sort") == "ascending"
    assert [int(cell) for cell in cells(page, 2)] == sorted(chosen.indices)[:25]
    page.keyboard.press("Enter")
    assert row.get_attribute("aria-sort") == "descending"
    assert [int(cell) for cell in cells(page, 2)] == sorted(chosen.indices)[:-26:-1]
    similarity = page.get_by_role("columnheader", name="cosine similarity")
    similarity.get_by_role("button").focus()
    page.keyboard.press("Space")
    shown = [float(cell) for cell in cells(page, 7)]
    assert similarity.get_attribute("aria-sort") == "descending"
    assert row.get_attribute("aria-sort") is None
    assert shown == sorted(shown, reverse=True)


def test_the_search_finds_picks_by_item_and_target_and_the_pager_goes_on(opened, written):
    chosen, _ = written
    page = opened(viewport={"width": 1200, "height": 800})
    page.get_by_role("button", name="Next").click()
    assert cells(page, 1) == [str(rank) for rank in range(26, 51)]
    page.get_by_label("Search").fill("SCRIPT onerror")
    rows = page.locator("#picks-table tbody tr").all_inner_texts()
    assert HOSTILE[1] in cells(page, 3)  # and picks whose nearest target is named so
    assert rows and all("script" in row and "onerror" in row for row in rows)
    count, said = page.locator("#picks-count").inner_text().split(" ", 1)
    assert said == "of 70 picks match" and len(rows) == min(int(count), 25)
    page.get_by_label("Search").fill(f"document {chosen.indices[60]}")
    assert "61" in cells(page, 1)
    page.get_by_label("Search").fill("no such thing")
    assert cells(page, 1) == []
    page.get_by_label("Search").fill("")
    assert len(cells(page, 1)) == 25


def test_hostile_targets_show_as_they_are_in_the_list_of_targets(opened):
    page = opened()
    page.click("#targets details summary")
    shown = page.locator("#targets details td.text").all_inner_texts()
    expected = [HOSTILE[i % len(HOSTILE)] for i in range(12)]
    assert [" ".join(text.split()) for text in shown] == [" ".join(t.split()) for t in expected]


def test_hostile_items_show_as_they_are_in_the_table_and_on_the_map(opened):
    page = opened(viewport={"width": 1200, "height": 800})
    assert cells(page, 3)[: len(HOSTILE)] == HOSTILE
    assert page.locator("#picks-table a, #picks-table img, #picks-table b").count() == 0
    for pick, text in enumerate(HOSTILE):
        label = hover_over(page, pick)
        whole = text if len(text) <= 120 else text[:120] + "…"
        assert squeezed(label.text_content()).endswith(squeezed(whole))
        assert label.locator("a, img, script, [style*='bold']").count() == 0


def squeezed(text):
    """Without spaces: a label breaks lines as it likes."""
    return re.sub(r"\s", "", text)


def hover_over(page, pick):
    """Point at a numbered pick: its dots are drawn the first one last."""
    page.evaluate(
        """(pick) => {
            const chart = document.getElementById("map-chart");
            const last = chart.data.length - 1;
            const point = chart.data[last].x.length - 1 - pick;
            Plotly.Fx.hover(chart, [{ curveNumber: last, pointNumber: point }]);
        }""",
        pick,
    )
    labels = page.locator("#map-chart .hoverlayer .hovertext text.nums")
    return labels.filter(has_text=re.compile(rf"^pick {pick + 1}, row "))


def test_a_line_is_switched_off_in_both_charts(opened):
    page = opened(viewport={"width": 1200, "height": 800})
    names = "[...document.getElementById('curve-worst').data].map((line) => line.name)"
    assert "top-k" in page.evaluate(names)
    page.get_by_role("button", name="top-k").click()
    assert page.get_by_role("button", name="top-k").get_attribute("aria-pressed") == "false"
    assert "top-k" not in page.evaluate(names)
    assert "MMR" in page.evaluate(names)


def test_without_script_the_summary_and_the_first_picks_can_be_read(browser, written):
    chosen, path = written
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.get_by_text("were picked by vtl to learn about 12 targets").is_visible()
    assert page.get_by_text("search and sorting need JavaScript").is_visible()
    assert [int(cell) for cell in cells(page, 2)] == chosen.indices[:25].tolist()
    assert not page.locator("#picks-search").is_visible()
    context.close()
