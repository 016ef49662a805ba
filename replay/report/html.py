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
from replay.report.document import Report, title_of

_PAGE: Final = Path(__file__).parent / "page"
_VENDOR: Final = _PAGE / "vendor"
_STYLES: Final = (_VENDOR / "uplot" / "uPlot.min.css", _PAGE / "report.css")
_SCRIPTS: Final = (
    _VENDOR / "fflate" / "index.js",
    _VENDOR / "uplot" / "uPlot.iife.min.js",
    *(
        _PAGE / f"{name}.js"
        for name in (
            "data",
            "view",
            "timeline",
            "strips",
            "lists",
            "comparison",
            "following",
            "report",
        )
    ),
)
MARKER: Final = '<meta name="generator" content="refold report">'
"""By this a file is recognized as a report, which may be written again."""
_LICENCES: Final = (
    "uPlot 1.6.32, (c) Leon Sorokin, MIT licence; fflate 0.8.3, (c) Arjun Barrett, MIT licence"
)


def page_of(reports: Sequence[Report], version: str = "") -> str:
    """The content of the file: one report, those of one run, or of two sides that are compared. A
    page that is served has the `version` of its logs: it asks for that of now, and loads itself
    again when they differ."""
    title = title_of(reports)
    script = "\n".join(_text(one) for one in _SCRIPTS)
    policy = f"script-src '{_digest(script)}'; img-src data:; form-action 'none'"
    if version:
        policy += "; connect-src 'self'"
    data = msgspec.json.encode(
        {
            "title": title,
            "logs": [document_of(one) for one in reports],
            "version": version,
        }
    ).decode()
    # JSON may contain "</script>" and "<!--"; an escaped "<" is the same JSON.
    data = data.replace("<", "\\u003c")
    body = _text(_PAGE / "body.html").replace("LICENCES", escape(_LICENCES))
    scripts = (
        f'<script type="application/json" id="data">{data}</script>\n<script>{script}</script>'
    )
    return html_document(f"refold report: {title}", f"{body}\n{scripts}", policy)


def html_document(title: str, body: str, policy: str = "form-action 'self'") -> str:
    """A document with the styles of a report. `policy` says what it may do besides."""
    style = "\n".join(_text(one) for one in _STYLES)
    allowed = f"default-src 'none'; style-src '{_digest(style)}'; base-uri 'none'; {policy}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n{MARKER}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
