"""The page: one file that opens without a network.

The scripts and styles of `page` are put together when a report is written. The policy of the page
allows these scripts only, by their digests, and no request to anywhere. Data are JSON in an element
that browsers do not execute; the scripts show them as text.
"""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

import msgspec

from replay.report.columns import document_of
from replay.report.document import Report

_PAGE: Final = Path(__file__).parent / "page"
_VENDOR: Final = _PAGE / "vendor"
_STYLES: Final = (_VENDOR / "uplot" / "uPlot.min.css", _PAGE / "report.css")
_SCRIPTS: Final = (
    _VENDOR / "fflate" / "index.js",
    _VENDOR / "uplot" / "uPlot.iife.min.js",
    *(_PAGE / f"{name}.js" for name in ("data", "view", "timeline", "strips", "lists", "report")),
)
MARKER: Final = '<meta name="generator" content="refold report">'
"""By this a file is recognized as a report, which may be written again."""
_LICENCES: Final = (
    "uPlot 1.6.32, (c) Leon Sorokin, MIT licence; fflate 0.8.3, (c) Arjun Barrett, MIT licence"
)


def page_of(reports: Sequence[Report]) -> str:
    """The content of the file, with one report, or with two to compare."""
    title = "refold report: " + " against ".join(one.path for one in reports)
    style = "\n".join(_text(one) for one in _STYLES)
    script = "\n".join(_text(one) for one in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = msgspec.json.encode([document_of(one) for one in reports]).decode()
    # JSON may contain "</script>" and "<!--"; an escaped "<" is the same JSON.
    data = data.replace("<", "\\u003c")
    body = _text(_PAGE / "body.html").replace("LICENCES", escape(_LICENCES))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n{MARKER}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="data">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
