"""The page of a report in Chromium."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Page, expect

from replay.logs.open_log import open_log
from replay.report.building import report_of
from replay.report.document import Report

Show = Callable[[Sequence[Report]], Page]
"""Shows the page of reports. The second one of two is compared with the first one."""


def report_at(path: Path | str) -> Report:
    """The report of a log."""
    with open_log(path) as log:
        return report_of(log, str(path))


def decision_is_followed_to_its_cause(page: Page, search: str) -> None:
    """Search, open a decision, zoom, and follow the decision to the event that caused it."""
    page.locator("#search").fill(search)
    page.locator(".row.decision", has_text=search).first.click()
    expect(page.locator("#detail")).to_contain_text(search)
    selected = page.evaluate("view.seq")
    width = page.evaluate("view.to - view.from")
    page.locator("#search").fill("")
    page.locator("#in").click()
    assert page.evaluate("view.to - view.from") < width
    page.locator("#list").focus()
    page.keyboard.press("c")
    page.wait_for_function("seq => view.seq > 0 && view.seq < seq", arg=selected)
    expect(page.locator("#detail dl")).to_contain_text("effects")
    expect(page).to_have_url(re.compile("seq="))
