"""A log that is written while the cluster writes its files is the one that an import makes."""

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from eventstore.reader import LogReader
from replay.errors import ReplayError
from replay.logs.decode import UPCASTERS
from replay.stock_clusters.broker_logs.growing import GrowingBrokerLog
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import ImportBegun, ImportEnded
from replay.stock_clusters.imports.following import FollowedImport, find_start
from replay.stock_clusters.imports.importing import Selection, import_source
from tools.agreement.fewer_logs import copy_with_fewer_logs

Get = Callable[[str], Path]
FOLLOWED = ("controller.log", "state-change.log")


def events_of(log: Path) -> Iterator[Any]:
    """The events without what names the source; the first and the last one only by their kind."""
    with LogReader.open(log, UPCASTERS) as reader:
        for record in reader.events():
            event = event_of(record)
            kind = type(event).__name__
            named = isinstance(event, (ImportBegun, ImportEnded))
            payload: object = "" if named else structs.asdict(event)
            yield record.seq, record.wall_ns, record.term, record.cause, kind, payload


@pytest.fixture
def source(folder_of: Get, tmp_path: Path) -> Path:
    copy_with_fewer_logs(folder_of("broker-crash-2"), tmp_path / "source", "no request log")
    return tmp_path / "source"


def growing_logs(source: Path) -> list[GrowingBrokerLog]:
    paths = sorted(source.glob("logs/*/*"))
    return [GrowingBrokerLog(one, UTC) for one in paths if one.name in FOLLOWED]


def read_all(followed: FollowedImport) -> None:
    now = 0.0
    while not followed.is_at_end:
        followed.read(100, now)
        now += 1


def test_followed_files_make_the_log_of_an_import(source: Path, tmp_path: Path) -> None:
    followed = FollowedImport(find_start(source, None), tmp_path / "followed", growing_logs(source))
    read_all(followed)
    followed.end(())
    import_source(source, tmp_path / "imported", Selection())
    assert [*events_of(tmp_path / "followed")] == [*events_of(tmp_path / "imported")]


def test_late_lines_of_brokers_are_placed_by_their_time(source: Path, tmp_path: Path) -> None:
    """Transactions wait a moment for lines that are written a little later."""
    logs = growing_logs(source)
    contents = [(one.path, one.path.read_bytes()) for one in logs]
    for path, _ in contents:
        path.write_bytes(b"")
    followed = FollowedImport(find_start(source, None), tmp_path / "followed", logs)
    assert followed.read(10_000, 0.0) == []
    for path, content in contents:
        path.write_bytes(content)
    followed.read(10_000, 0.3)
    read_all(followed)
    followed.end(())
    import_source(source, tmp_path / "imported", Selection())
    assert [*events_of(tmp_path / "followed")] == [*events_of(tmp_path / "imported")]


def test_beginning_after_missing_transactions_is_a_later_snapshot(
    folder_of: Get, tmp_path: Path
) -> None:
    shutil.copytree(folder_of("chaos-5"), tmp_path / "source")
    begun = find_start(tmp_path / "source", None, after=0x100)
    assert (begun.state.zxid, begun.missing) == (0x13B, 0x13B - 0x100)
    with pytest.raises(ReplayError, match="no later snapshot can be used"):
        find_start(tmp_path / "source", None, after=0x200)


def test_folder_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="has no ZooKeeper transaction log"):
        find_start(tmp_path, None)
    with pytest.raises(ReplayError, match="does not exist"):
        find_start(tmp_path / "missing", None)
