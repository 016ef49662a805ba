"""Serves the reports of a folder on loopback: the list of logs, and a page for each.

A page asks now and then whether its log has grown, and loads its new report. Requests with
another name of the host are refused: a foreign web page cannot read reports by a name that it lets
point to this machine.
"""

import threading
from collections import OrderedDict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from eventstore.errors import LogError
from replay.errors import ReplayError
from replay.logs.open_log import open_log
from replay.report.building import put_on_one_clock, report_of
from replay.report.comparing import compare
from replay.report.document import Report
from replay.report.html import page_of
from replay.report.index_page import error_page, index_page
from replay.report.served_logs import ServedLog, logs_in
from replay.what_if.saved_run import continuing_log

LOOPBACK: Final = "127.0.0.1"
_PAGES_MAX: Final = 8
"""At most this many pages are kept."""
_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"


class ReportServer(ThreadingHTTPServer):
    """The server. Raises OSError if the port is in use."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self._pages: OrderedDict[tuple[str, ...], tuple[str, str]] = OrderedDict()
        self._building = threading.Lock()
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of this server in requests."""
        return tuple(f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost"))

    def page(self, chosen: list[ServedLog]) -> str:
        """The page of one log or run, or of two. Raises ReplayError, LogError."""
        key = tuple(str(one.path) for one in chosen)
        version = _version_of(chosen)
        with self._building:  # Two builds at once take longer than one after the other.
            kept = self._pages.get(key)
            if kept is None or kept[0] != version:
                kept = (version, _page_of(chosen, version))
            self._pages[key] = kept
            self._pages.move_to_end(key)
            while len(self._pages) > _PAGES_MAX:
                self._pages.popitem(last=False)
        return kept[1]


def _version_of(chosen: list[ServedLog]) -> str:
    return ",".join(one.version for one in chosen)


def _page_of(chosen: list[ServedLog], version: str) -> str:
    sides = [[_report_of(log) for log in one.parts] for one in chosen]
    if len(sides) > 1:
        compare(*sides)
    else:
        put_on_one_clock(*sides)
    return page_of(list(chain(*sides)), version)


def _report_of(one: ServedLog) -> Report:
    with open_log(one.path) as log:
        if not log.reader.last_seq:
            raise ReplayError(f"{one.name} has no events: there is nothing to report")
        found = report_of(log, str(one.path))
        found.continues = continuing_log(one.path)
        return found


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    server_version = "refold"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request."""
        if self.headers.get("Host") not in self.server.hosts:
            self._send(HTTPStatus.FORBIDDEN, error_page("This server has another name."))
            return
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        try:
            match address.path:
                case "/":
                    folder = self.server.folder
                    self._send(HTTPStatus.OK, index_page(folder, logs_in(folder)))
                case "/report":
                    self._send(HTTPStatus.OK, self.server.page(self._requested_logs(query)))
                case "/version":
                    version = _version_of(self._requested_logs(query))
                    text = msgspec.json.encode({"version": version}).decode()
                    self._send(HTTPStatus.OK, text, _JSON)
                case _:
                    self._send(HTTPStatus.NOT_FOUND, error_page("There is no such page."))
        except KeyError as error:
            text = f"There is no log {error.args[0]!r} in the folder."
            self._send(HTTPStatus.NOT_FOUND, error_page(text))
        except (ReplayError, LogError, OSError) as error:
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, error_page(f"No report: {error}"))

    def _requested_logs(self, query: dict[str, list[str]]) -> list[ServedLog]:
        """The logs and runs of a request. Only logs of the list are opened. Raises KeyError."""
        listed = logs_in(self.server.folder)
        known = {each.name: each for one in listed for each in (*one.logs, one)}
        names = [name for field in ("log", "against") for name in query.get(field, [])[:1]]
        return [known[name] for name in names or [""]]

    def _send(self, status: HTTPStatus, text: str, kind: str = _HTML) -> None:
        body = text.encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
