"""The log of an interrupted import: every command that reads the log reports that."""

from pathlib import Path

import pytest

from eventstore.reader import LogReader
from replay.agreement.comparison import agree
from replay.logs.decode import UPCASTERS
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import ImportEnded
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.imports.records import new_log
from tests.replay.cli.command import refold
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING
from tests.replay.why.asked import asked

CRASH = RECORDING.with_name("broker-crash-2.tar.xz")
NOTE = (
    "this log has no end: `refold run --mode shadow` still writes it or was killed, or the import"
    f" of {CRASH} was interrupted and must be repeated"
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("whole") / "log"
    import_source(CRASH, log, Selection())
    return log


@pytest.fixture(scope="module")
def unfinished(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("unfinished") / "log"
    with LogReader(whole, UPCASTERS) as reader, new_log(log, reader.header) as records:
        for one in reader.events():
            event = event_of(one)
            if not isinstance(event, ImportEnded):
                records.add(event, one.wall_ns // 1_000_000, one.term, one.channel, one.cause)
    return log


def test_agree_reports_the_interrupted_import(whole: Path, unfinished: Path) -> None:
    assert NOTE in agree(unfinished).notes
    assert NOTE not in agree(whole).notes


def test_why_reports_the_interrupted_import(whole: Path, unfinished: Path) -> None:
    assert NOTE in asked(unfinished).notes
    assert NOTE not in asked(whole).notes


def test_inspect_reports_the_interrupted_import(whole: Path, unfinished: Path) -> None:
    done = refold("inspect", unfinished, "--json")
    assert (done.returncode, done.stderr) == (0, f"refold inspect: {NOTE}\n")
    assert refold("inspect", whole).stderr == ""
