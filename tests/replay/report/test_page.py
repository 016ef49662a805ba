"""The page in Chromium: no console error, selection, search, filters, the other log."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from playwright.sync_api import Browser, Page, expect, sync_playwright

from replay.logs.open_log import open_log
from replay.report.building import report_of
from replay.report.html import page_of

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def _page(browser: Browser, folder: Path, *names: str) -> tuple[Page, list[str]]:
    reports = []
    for name in names:
        with open_log(f"tests/{name}") as log:
            reports.append(report_of(log, name))
    lane = reports[0].lanes[-1]
    reports[0].lanes[-1] = structs.replace(lane, name="<script>bad()</script>-0", weight=1.0)
    file = folder / "report.html"
    file.write_text(page_of(reports), encoding="utf-8")
    page, problems = browser.new_page(), []
    page.on("console", lambda one: problems.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda one: problems.append(str(one)))
    page.on("request", lambda one: problems.append(one.url) if "file:" not in one.url else None)
    page.goto(file.as_uri())
    expect(page.locator("#kind option").nth(1)).to_be_attached()
    return page, problems


@pytest.mark.parametrize("name", ["incidents/unclean-election", "recordings/unclean-3.tar.xz"])
def test_finding_leads_to_its_event_with_its_why(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    page, problems = _page(browser, tmp_path, name)
    page.locator("#findings button").first.click()
    expect(page.locator("#detail dl")).to_contain_text("event")
    expect(page.locator(".row[aria-selected=true]")).to_be_visible()
    expect(page).to_have_url(re.compile("seq="))
    page.reload()
    expect(page.locator("#detail dl")).to_contain_text("event")
    assert problems == []


def test_search_filters_the_list_and_the_cause_can_be_followed(
    browser: Browser, tmp_path: Path
) -> None:
    page, problems = _page(browser, tmp_path, "incidents/broker-crash")
    page.locator("#search").fill("set /brokers/topics/orders/partitions/1/state")
    row = page.locator(".row.decision", has_text="partitions/1/state").first
    row.click()
    expect(page.locator("#detail")).to_contain_text("passed over: 2 is not online")
    page.locator("#search").fill("")
    page.locator("#list").focus()
    page.keyboard.press("c")
    expect(page.locator("#detail dd").first).not_to_contain_text("71:")
    page.locator("#table").click()
    expect(page.locator("#lane-table")).to_contain_text("<script>bad()</script>-0")
    assert problems == []


def test_second_log_is_switched_to(browser: Browser, tmp_path: Path) -> None:
    page, problems = _page(browser, tmp_path, "incidents/broker-crash", "incidents/failover")
    assert page.locator(".lanes canvas").count() == 2
    page.locator("#switch").click()
    expect(page).to_have_url(re.compile("log=1"))
    assert problems == []
