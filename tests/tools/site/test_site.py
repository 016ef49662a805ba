"""The documentation site in Chromium: navigation, diagrams, search and colours, offline."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import checked_page, launched, needs_chromium
from tools.pages import ROOT
from tools.site.hooks import navigation

pytestmark = [pytest.mark.long, needs_chromium]
WITH_DIAGRAMS = sorted(
    page.stem for page in ROOT.glob("docs/*.md") if "```mermaid" in page.read_text(encoding="utf-8")
)


class QuietRequestHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(QuietRequestHandler, directory=folder)
    ) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with checked_page(browser, "http://127.0.0.1", "data:", "blob:") as page:
        yield page


def test_search_finds_a_page_and_leads_to_it(site: str, page: Page) -> None:
    page.goto(f"{site}/index.html")
    page.keyboard.press("/")
    page.keyboard.type("zombie controller", delay=20)
    first = page.locator(".md-search-result__link").first
    expect(first).to_contain_text("A zombie controller")
    first.click()
    expect(page.locator("h1")).to_contain_text("A zombie controller")
    expect(page.locator("article mark").first).to_be_attached()


@pytest.mark.parametrize(
    "name",
    [
        WITH_DIAGRAMS[0],
        *(pytest.param(one, marks=pytest.mark.long) for one in WITH_DIAGRAMS[1:]),
    ],
)
def test_diagrams_are_drawn_without_the_internet(site: str, page: Page, name: str) -> None:
    page.goto(f"{site}/{name}.html")
    blocks = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8").count("```mermaid")
    expect(page.locator("div.mermaid")).to_have_count(blocks)
    heights = page.locator("div.mermaid").evaluate_all("all => all.map(one => one.offsetHeight)")
    assert min(heights) > 50
    expect(page.locator("pre.mermaid")).to_have_count(0)


@pytest.mark.sampled
@pytest.mark.parametrize(("colours", "scheme"), [("light", "default"), ("dark", "slate")])
def test_colours_follow_the_system(site: str, page: Page, colours: str, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
    page.goto(f"{site}/index.html")
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", scheme)


def test_navigation_has_the_sections_of_the_index_and_each_page_once() -> None:
    one = "## One\n|a|\n|-|\n|[x](page.md#y), [r](../README.md)|\n"
    index = f"# D\n{one}## Two\n|a|\n|-|\n|[x](page.md)|\n"
    assert navigation(index) == [
        {"Documentation": ["index.md"]},
        {"One": ["page.md", "readme.md"]},
        {"Two": []},
    ]


def test_page_of_the_root_folder_is_in_the_site_with_its_links(site: str, page: Page) -> None:
    page.goto(f"{site}/index.html")
    page.locator("article").get_by_role("link", name="README", exact=True).click()
    expect(page.locator("h1")).to_contain_text("refold")
    page.locator("article").get_by_role("link", name="tutorial", exact=True).first.click()
    expect(page).to_have_title("Tutorial: debug a failover in ten minutes - refold")
