"""A study in a browser: optuna-dashboard shows the statement of safety, our page the figures."""

import threading
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

pytest.importorskip("optuna")
optuna_dashboard = pytest.importorskip("optuna_dashboard")
pytest.importorskip("plotly")

from study_workers import go_on, open_study  # noqa: E402
from tellmost.integrations import optuna as field  # noqa: E402

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
CHARTS = "[...document.querySelectorAll('.chart')]"
PATIENCE = 120_000  # milliseconds: the dashboard is a large script on a busy machine
HOSTILE = "<img src=x onerror='window.hit=1'>"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs the Debian package chromium"),
]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture
def study(tmp_path):
    """Six safe trials, a failed one, a violation that was acknowledged, and one that waits."""
    study = open_study(f"sqlite:///{tmp_path}/laser.db")
    go_on(study, 6)
    failed, broken = field.ask(study, 2)
    field.tell(study, failed, failed=HOSTILE)
    field.tell(study, broken, 0.3, {"heat": 1.4})
    field.acknowledge(study, by=HOSTILE)
    field.ask(study)
    return study


@pytest.fixture
def dashboard(study, tmp_path):
    """The address of a dashboard on this machine."""
    app = optuna_dashboard.wsgi(field.open_storage(f"sqlite:///{tmp_path}/laser.db"))
    server = make_server("127.0.0.1", 0, app, server_class=Server, handler_class=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/dashboard"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser.new_page(viewport={"width": 1300, "height": 620})
        browser.close()


def test_the_dashboard_shows_what_is_known_about_a_trial(study, dashboard, page, tmp_path):
    page.goto(f"{dashboard}/studies/1/trials?numbers=5", wait_until="commit")
    page.get_by_text("User Attributes").wait_for(timeout=PATIENCE)
    text = page.inner_text("body")
    assert '"statement"' in text and "margins at least: heat" in text
    assert f"heat {study.trials[5].user_attrs['heat']}" in text
    page.screenshot(path=tmp_path / "trial.png")
    page.goto(f"{dashboard}/studies/1", wait_until="commit")
    page.get_by_text("Infeasible").first.wait_for(timeout=PATIENCE)  # by the attribute constraints
    page.get_by_text("tellmost:decision:acknowledged").first.wait_for(timeout=PATIENCE)
    assert page.evaluate("window.hit") is None


def test_the_page_of_figures_draws_all_of_them_and_loads_nothing(study, page, tmp_path):
    from tellmost.report.study_page import write_study_page

    errors, requests = [], []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    path = tmp_path / "laser.html"
    write_study_page(study, path, {"heat": f"°C{HOSTILE}"})
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.chart .main-svg').length > 0")
    charts = page.evaluate(f"{CHARTS}.map(one => [one.id, one.querySelectorAll('path').length])")
    names = {name.rsplit("-", 1)[0] for name, _ in charts}
    assert names >= {"over-time", "slices", "growth", "calibration", "risk"}
    assert all(drawn for _, drawn in charts)
    body = page.inner_text("body")
    assert f"failed: {HOSTILE}" in body and "violated a limit" in body
    assert page.evaluate("window.hit") is None
    assert errors == [] and set(requests) == {path.as_uri()}
