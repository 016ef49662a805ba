"""Hooks of MkDocs: the navigation by reader, the pages of the root folder, Mermaid.

Links in the pages are those of the repository, so that the pages can also be read on a web site of
Git. The hooks adapt the links between docs/ and the root folder.
"""

import itertools
import re
import zipfile
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.setup.jars import MERMAID, fetch

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"

ROOT_PAGES: Final = {
    # A README.md would replace index.md.
    "README.md": "readme.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
"""Pages of the root folder, and their names in the site."""

_MERMAID: Final = "javascripts/mermaid.min.js"
_MERMAID_IN_JAR: Final = re.compile(r"META-INF/resources/webjars/mermaid/[^/]+/dist/mermaid.min.js")
_FROM_ROOT: Final = re.compile(r"(\]\(|^\[[^]]+\]: )docs/", re.MULTILINE)
_TO_ROOT: Final = re.compile(rf"(\]\(|\]: )(?:\.\./)+({'|'.join(map(re.escape, ROOT_PAGES))})")

Nav = list[dict[str, list[str]]]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation."""
    config.nav = navigation((DOCS / "index.md").read_text(encoding="utf-8"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root folder, and Mermaid."""
    for name, in_site in ROOT_PAGES.items():
        text = _FROM_ROOT.sub(r"\1", (ROOT / name).read_text(encoding="utf-8"))
        text = text.replace("](README.md", f"]({ROOT_PAGES['README.md']}")
        files.append(File.generated(config, in_site, content=text))
    files.append(File.generated(config, _MERMAID, content=_mermaid()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the links from docs/ to the root folder."""
    up = "../" * page.file.src_uri.count("/")
    return _TO_ROOT.sub(lambda found: f"{found[1]}{up}{ROOT_PAGES[found[2]]}", markdown)


def navigation(index: str) -> Nav:
    """The sections of docs/index.md with the pages that their tables list.

    A page in several sections is in the navigation once. The pages of a folder that has the name of
    a page follow that page.
    """
    nav: Nav = [{"Documentation": ["index.md"]}]
    listed = {"index.md"}
    tokens = MarkdownIt().enable("table").parse(index)
    for before, token in itertools.pairwise(tokens):
        if before.type == "heading_open" and before.tag == "h2":
            nav.append({token.content: []})
        elif before.type == "td_open":
            [pages] = nav[-1].values()
            links = (one for one in token.children or () if one.type == "link_open")
            for path in (_in_site(str(link.attrs["href"])) for link in links):
                if path not in listed:
                    listed.add(path)
                    pages += [path, *_pages_of_folder(path)]
    return nav


def _in_site(link: str) -> str:
    path = link.partition("#")[0]
    return ROOT_PAGES.get(path.removeprefix("../"), path)


def _pages_of_folder(page: str) -> list[str]:
    folder = (DOCS / page).with_suffix("")
    return [str(one.relative_to(DOCS)) for one in sorted(folder.glob("*.md"))]


def _mermaid() -> bytes:
    """The script that draws diagrams, from the pinned jar."""
    [jar] = fetch(MERMAID).glob("*.jar")
    with zipfile.ZipFile(jar) as opened:
        [name] = [one for one in opened.namelist() if _MERMAID_IN_JAR.fullmatch(one)]
        return opened.read(name)
