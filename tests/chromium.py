"""Debian's Chromium, for tests of pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

_CHROMIUM = shutil.which("chromium")

needs_chromium = pytest.mark.skipif(_CHROMIUM is None, reason="Debian's chromium is not installed")


@contextmanager
def launched() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def checked_page(browser: Browser, *inside: str) -> Iterator[Page]:
    """A page that has neither errors nor requests to another place than `inside` at the end."""
    with browser.new_page() as page:
        problems: list[str] = []
        page.on("console", lambda one: problems.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda one: problems.append(str(one)))
        page.on(
            "request", lambda one: None if one.url.startswith(inside) else problems.append(one.url)
        )
        yield page
        assert problems == []
