"""The page in Debian's chromium, offline: charts, escaped text, and navigation to events."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, sync_playwright

from replay.fleet.report.details import events
from replay.fleet.report.page import page_of
from tests.replay.fleet.report.samples import BEGIN, CLUSTER, PAYLOAD, TOPIC, findings, record

pytestmark = pytest.mark.timeout(180)

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium")
    if found is None:
        assert "CI" not in os.environ, "CI needs a browser"
        pytest.skip("needs Debian's chromium: apt-get install chromium")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu", "--disable-quic", *quiet]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "fleet.html"
    path.write_text(page_of(findings()), encoding="utf-8")
    return path


class OpenedPage:
    """The page in a separate browser context without network, with its console messages and
    requests."""

    def __init__(self, browser: Browser, file: Path, size: dict[str, int] = WIDE) -> None:
        context = browser.new_context(viewport=size, offline=True)  # type: ignore[arg-type]
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda one: self.errors.append(one.text))
        self.page.on("pageerror", lambda one: self.errors.append(str(one)))
        self.page.on("request", lambda one: self.requested.append(one.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("#chart-failover_steps .bars")


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[OpenedPage]:
    found = OpenedPage(browser, file)
    yield found
    found.page.context.close()


def test_page_opens_offline_without_errors(opened: OpenedPage, file: Path) -> None:
    assert opened.errors == []
    assert opened.requested == [file.as_uri()]
    assert opened.page.locator(".chart .main-svg").count() >= 5
    assert opened.page.get_by_text("20,000,000").is_visible()


def test_text_from_logs_is_escaped(opened: OpenedPage) -> None:
    page = opened.page
    for one in page.locator(".incident, .divergence").all():
        one.evaluate("one => one.open = true")
    page.locator("#incident-1 td details summary").first.click()
    assert page.evaluate("window.broken") is None
    assert page.locator("main img, main script:not([type]), main b b").count() == 0
    cells = page.locator("td", has_text=f"{TOPIC}-0")
    assert cells.first.is_visible()
    assert page.locator("#incident-1 td code").first.inner_text() == PAYLOAD
    assert page.locator("#incident-1").get_attribute("data-cluster") == CLUSTER
    labels = page.locator("#chart-clusters .ytick text").all_text_contents()
    assert labels[-1] == CLUSTER[:23] + "…"


@pytest.mark.long
def test_click_on_a_cluster_leads_to_its_events(opened: OpenedPage) -> None:
    page = opened.page
    page.locator("#chart-clusters").scroll_into_view_if_needed()
    bars = page.locator("#chart-clusters .trace.bars").first.locator(".point path")
    bars.nth(1).click(force=True)
    shown = page.locator(".incident:visible")
    assert page.locator("#cluster").input_value() == "kafka-prod-eu-west-001"
    assert shown.count() == 3
    event = shown.first.locator(".events td").first
    assert not event.is_visible()
    shown.first.locator("summary").first.click()
    assert event.is_visible()
    assert event.inner_text() == "1195"
    page.select_option("#cluster", "")
    assert shown.count() == 8


def test_command_covers_all_records_of_the_period() -> None:
    shown = [record(208, BEGIN, 0)]
    about = {"cluster": "c", "log": "run-1", "seq": 208, "ended_seq": 245}
    assert "seq between 198 and 255 order" in events(shown, about, "/tables/fleet")
    moment = {"cluster": "c", "log": "run-1", "seq": 208}
    assert "seq between 198 and 218 order" in events(shown, moment, "/tables/fleet")


@pytest.mark.long
def test_link_opens_its_incident(opened: OpenedPage, file: Path) -> None:
    opened.page.goto(f"{file.as_uri()}#incident-3")
    assert opened.page.locator("#incident-3 .events").is_visible()


@pytest.mark.long
def test_link_opens_its_divergence(opened: OpenedPage, file: Path) -> None:
    opened.page.goto(f"{file.as_uri()}#divergence-2")
    one = opened.page.locator("#divergence-2")
    line = one.locator("summary").first.inner_text()
    assert f"offline partition leader election · {TOPIC}-0 · event 1200" in line
    assert f"version {TOPIC} (1a2b3c4d), the first of its divergences in this log, 4,321" in line
    assert one.locator("li").last.inner_text() == f"the version, {TOPIC}-0: chose no leader"
    assert one.locator(".events tbody tr").count() == 6
    assert one.locator(".events").is_visible()
    assert "5 partitions" in opened.page.locator("#divergence-1 summary").first.inner_text()


@pytest.mark.sampled
@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_page_fits_its_window(browser: Browser, file: Path, size: dict[str, int]) -> None:
    opened = OpenedPage(browser, file, size)
    opened.page.locator("#incident-1").evaluate("one => one.open = true")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert opened.errors == []
    opened.page.context.close()


@pytest.mark.long
def test_fleet_without_incidents_and_replays_has_a_page(browser: Browser, tmp_path: Path) -> None:
    actual = findings()
    steps = {"failover_steps": actual.answers["failover_steps"]}
    quiet = replace(
        actual,
        answers={**{name: [] for name in actual.answers}, **steps},
        replays=None,
        incidents=[],
        divergences=[],
    )
    path = tmp_path / "quiet.html"
    path.write_text(page_of(quiet), encoding="utf-8")
    opened = OpenedPage(browser, path)
    assert opened.errors == []
    assert opened.page.get_by_text("refold fleet replay").is_visible()
    assert opened.page.get_by_text("No partition was unavailable").is_visible()
    opened.page.context.close()
