"""Fixtures of the tests of the page."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from replay.report.comparing import compare
from replay.report.document import Report
from replay.report.html import page_of
from tests.chromium import checked_page, launched
from tests.replay.report.shown_page import Show


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with checked_page(browser, "file:", "http://127.0.0.1") as page:
        yield page


@pytest.fixture
def show(page: Page, tmp_path: Path) -> Show:
    def show(reports: Sequence[Report]) -> Page:
        if len(reports) > 1:
            compare(reports[:1], reports[1:])
        file = tmp_path / "report.html"
        file.write_text(page_of(reports), encoding="utf-8")
        page.goto(file.as_uri())
        expect(page.locator("#kind option").nth(1)).to_be_attached()
        return page

    return show
