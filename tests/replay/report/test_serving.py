"""`refold serve`: the list, the reports, and what it refuses."""

import json
import os
import re
import shutil
import socket
import tarfile
from collections.abc import Iterator
from html import escape
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from eventstore.reader import LogReader
from eventstore.writer import LogWriter
from replay.cli.main import app as refold
from replay.cli.serve import app
from replay.report.serving import ReportServer
from tests.replay.recorded_log import header
from tests.replay.report.served import served

INCIDENT = Path("tests/incidents/broker-crash")
ODD = "<script>alert(1)&"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    shutil.copytree(INCIDENT, folder / "crash")
    with tarfile.open(INCIDENT / "log.tar.xz") as packed:
        packed.extractall(folder / ODD, filter="data")
    (folder / "broken").mkdir()
    (folder / "broken" / f"{1:020d}.refold").write_text("no log")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ReportServer]:
    with served(folder) as server:
        yield server


def _get(server: ReportServer, path: str, host: str | None = None) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def _unpacked(server: ReportServer) -> str:
    segment = next((server.folder / ODD).rglob("*.refold"))
    return str(segment.parent.relative_to(server.folder))


def test_list_has_all_logs_and_their_names_as_text(server: ReportServer) -> None:
    status, page = _get(server, "/")
    assert status == 200
    assert ">crash</a>" in page
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&amp;" in page


def row(page: str, name: str) -> list[str]:
    """The cells of a log in the list: kind, begin, events."""
    line = next(line for line in page.splitlines() if f">{name}</a>" in line)
    return re.findall("<td>([^<]*)</td>", line)[:3]


def test_list_has_the_begin_and_the_events_of_logs_that_are_packed_or_not(
    server: ReportServer,
) -> None:
    shutil.copy(INCIDENT / "log.tar.xz", server.folder / "packed.tar.xz")
    _, page = _get(server, "/")
    counted = ["2026-11-21T23:21:03.445627Z", "124"]
    assert row(page, "crash") == ["incident", *counted]
    assert row(page, "packed.tar.xz") == ["packed", *counted]
    assert row(page, escape(_unpacked(server))) == ["daemon&#x27;s log", *counted]


def test_list_says_why_the_begin_and_the_events_of_a_log_are_unknown(tmp_path: Path) -> None:
    shutil.copy("tests/recordings/unclean-3.tar.xz", tmp_path / "stock.tar.xz")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / f"{1:020d}.refold").write_text("no log")
    (tmp_path / "torn.tar.xz").write_text("no archive")
    (tmp_path / "large.tar.xz").write_bytes(bytes(5 << 20))
    LogWriter.create(tmp_path / "empty", header()).close()
    with served(tmp_path) as server:
        _, page = _get(server, "/")
    assert row(page, "stock.tar.xz") == ["packed", "not imported: see its report", ""]
    assert row(page, "broken") == ["log", "cannot be read", ""]
    assert row(page, "torn.tar.xz") == ["packed", "cannot be read", ""]
    assert row(page, "large.tar.xz") == ["packed", "large: see its report", ""]
    assert row(page, "empty") == ["daemon&#x27;s log", "no events", ""]


def test_report_is_of_the_logs_that_the_address_names(server: ReportServer) -> None:
    status, page = _get(server, "/report?log=crash")
    assert (status, page.count('"recordedBy"')) == (200, 1)
    status, page = _get(server, "/report?log=crash&against=" + quote(_unpacked(server)))
    assert (status, page.count('"recordedBy"')) == (200, 2)
    assert "connect-src 'self'" in page


def test_run_of_what_if_is_aligned_with_its_log(tmp_path: Path) -> None:
    shutil.copytree(INCIDENT, tmp_path / "crash")
    options = ["what-if", str(INCIDENT), "--drop", "67", "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(refold, options).exit_code == 1
    with served(tmp_path) as server:
        page = _get(server, "/report?log=crash&against=run/refold-1000-run-1")[1]
    assert "B continues A after event 66; " in page


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(INCIDENT, folder / "crash")
    for name, *change in (("one", "--drop", "67"), ("two", "--crash", "controller@66")):
        options = ["what-if", str(INCIDENT), *change, "--out", str(folder / name)]
        assert CliRunner().invoke(refold, options).exit_code == 1
    return folder


def _last_seq(log: Path) -> int:
    with LogReader.open(log) as reader:
        return reader.last_seq


def test_list_has_one_row_for_a_run_with_its_logs(two_runs: Path) -> None:
    with served(two_runs) as server:
        _, page = _get(server, "/")
        choices = re.findall('name="against" value="([^"]*)"', page)
        log = _get(server, "/report?log=two/refold-1000-run-2")
    assert sorted(choices) == ["crash", "one", "two"]
    assert "1 log, 2 saved runs" in page
    assert row(page, "one")[0] == "saved run"
    kind, begin, events = row(page, "two")
    assert (kind, begin[:10]) == ("saved run with 2 logs", "2023-11-14")
    last = [_last_seq(two_runs / "two" / f"refold-1000-run-{number}") for number in (1, 2)]
    assert int(events) == sum(last)
    assert 'href="/report?log=two%2Frefold-1000-run-2">two/refold-1000-run-2</a>' in page
    assert (log[0], log[1].count('"recordedBy"')) == (200, 1)


def test_report_of_a_run_has_all_its_logs_and_is_compared_as_a_whole(two_runs: Path) -> None:
    with served(two_runs) as server:
        alone = _get(server, "/report?log=two")[1]
        compared = _get(server, "/report?log=crash&against=two")[1]
    assert alone.count('"recordedBy"') == 2
    assert "B and C continue A after event 66; " in compared
    assert compared.count('"recordedBy"') == 3


def test_logs_of_a_run_are_listed_one_by_one_if_one_of_them_is_damaged(
    two_runs: Path, tmp_path: Path
) -> None:
    shutil.copytree(two_runs / "two", tmp_path / "two")
    next((tmp_path / "two/refold-1000-run-2").glob("*.refold")).write_text("no log")
    with served(tmp_path) as server:
        _, page = _get(server, "/")
    assert "<p>2 logs</p>" in page
    assert row(page, "two/refold-1000-run-1")[0] == "daemon&#x27;s log"
    assert row(page, "two/refold-1000-run-2")[1] == "cannot be read"


def test_version_changes_when_a_log_grows(server: ReportServer) -> None:
    path = "/version?log=" + quote(_unpacked(server))
    before = json.loads(_get(server, path)[1])
    assert json.loads(_get(server, path)[1]) == before
    segment = next((server.folder / ODD).rglob("*.refold"))
    os.utime(segment, ns=(1, segment.stat().st_mtime_ns + 1))
    assert json.loads(_get(server, path)[1]) != before


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/report?log=../../etc/passwd", 404, "There is no log"),
        ("/report", 404, "There is no log"),
        ("/other", 404, "no such page"),
        ("/report?log=broken", 422, "No report:"),
    ],
)
def test_request_that_cannot_be_answered_is_one_sentence(
    server: ReportServer, path: str, status: int, text: str
) -> None:
    found, page = _get(server, path)
    assert found == status
    assert text in page


def test_request_by_another_host_name_is_refused(server: ReportServer) -> None:
    assert _get(server, "/", host=f"evil.example:{server.server_port}")[0] == 403
    assert _get(server, "/", host=f"localhost:{server.server_port}")[0] == 200


def test_folder_or_port_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path / "absent")])
    assert result.exit_code == 2
    assert "is not a folder" in result.output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, [str(tmp_path), "--port", str(port)])
    assert result.exit_code == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in result.output
