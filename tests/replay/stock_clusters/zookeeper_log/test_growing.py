"""The transaction logs of a running server are read as far as the server has written them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from replay.stock_clusters.zookeeper_log.growing import GrowingLogs
from replay.stock_clusters.zookeeper_log.merging import Gap
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from tests.replay.stock_clusters.zookeeper_log.samples import error
from tools.zookeeper_log.file_format import log_header, log_record

EPOCH = 1 << 32
PREALLOCATED = 4096


class Server:
    """Writes transaction logs as a server does: into zeros."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "log.1"
        self._end = 0
        self._logs: list[GrowingLogs] = []

    def logs(self, after: int) -> GrowingLogs:
        """The transactions after a zxid."""
        self._logs.append(GrowingLogs(self.folder, after))
        return self._logs[-1]

    def close(self) -> None:
        for one in self._logs:
            one.close()

    def begin(self, zxid: int) -> None:
        """Begin the next file."""
        self._path = self.folder / f"log.{zxid:x}"
        self._path.write_bytes(bytes(PREALLOCATED))
        self._end = 0
        self._put(log_header())

    def write(self, *zxids: int) -> None:
        for zxid in zxids:
            self._put(log_record(error(zxid)))

    def write_part(self, zxid: int, size: int) -> None:
        """Write the beginning of a record; the next `write` overwrites it."""
        end = self._end
        self._put(log_record(error(zxid))[:size])
        self._end = end

    def purge(self) -> None:
        self._path.unlink()

    def _put(self, data: bytes) -> None:
        with self._path.open("r+b") as stream:
            stream.seek(self._end)
            self._end += stream.write(data)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.begin(1)
    yield server
    server.close()


def zxids(found: Sequence[Transaction | Gap]) -> list[int | tuple[int, int]]:
    return [(one.after, one.before) if isinstance(one, Gap) else one.zxid for one in found]


def read(logs: GrowingLogs, now: float = 0.0, limit: int = 100) -> list[int | tuple[int, int]]:
    return zxids([*logs.read(limit, now)])


def test_each_transaction_is_read_once(server: Server) -> None:
    logs = server.logs(0)
    assert read(logs) == []
    server.write(1, 2)
    assert read(logs) == [1, 2]
    assert read(logs) == []
    server.write(3)
    assert (read(logs), logs.zxid, logs.is_at_end) == ([3], 3, True)


@pytest.mark.parametrize("size", [1, 11, 12, 20])
def test_record_that_is_being_written_is_read_later(server: Server, size: int) -> None:
    logs = server.logs(0)
    server.write(1)
    server.write_part(2, size)
    assert read(logs) == [1]
    assert logs.stalled is None or logs.stalled.is_torn is False
    server.write(2)
    assert (read(logs), logs.stalled, logs.damages) == ([2], None, [])


def test_record_that_stays_damaged_is_reported(server: Server) -> None:
    logs = server.logs(0)
    server.write(1)
    server.write_part(2, 20)
    assert read(logs, 0.0) == [1]
    assert read(logs, 11.0) == []
    assert logs.stalled is not None
    assert "log.1" in str(logs.stalled)


def test_next_file_is_read_after_the_rest_of_the_one_before(server: Server) -> None:
    logs = server.logs(0)
    server.write(1)
    assert read(logs) == [1]
    server.write(2)
    server.begin(3)
    server.write(3)
    assert (read(logs), logs.file) == ([2, 3], "log.3")


def test_torn_end_of_a_killed_server_is_followed_by_the_next_file(server: Server) -> None:
    logs = server.logs(0)
    server.write(1)
    server.write_part(2, 20)
    assert read(logs) == [1]
    server.begin(2)
    server.write(2)
    assert read(logs) == [2]


def test_purged_file_is_read_to_its_end(server: Server) -> None:
    logs = server.logs(0)
    server.write(1)
    assert read(logs) == [1]
    server.write(2)
    server.purge()
    server.begin(3)
    server.write(3)
    assert read(logs) == [2, 3]


def test_first_transaction_of_another_leader_follows(server: Server) -> None:
    logs = server.logs(0)
    server.write(1, 2)
    server.begin(EPOCH + 1)
    server.write(EPOCH + 1)
    assert read(logs) == [1, 2, EPOCH + 1]


def test_missing_transactions_are_a_gap_after_a_moment(server: Server) -> None:
    """A few missing ones are passed over; after many, nothing is read."""
    logs = server.logs(0)
    server.write(1, 3)
    assert read(logs, 0.0) == [1]
    assert read(logs, 1.0) == []
    assert read(logs, 2.5) == [(1, 3), 3]
    server.write(100)
    assert read(logs, 3.0) == []
    assert read(logs, 6.0) == [(3, 100)]
    assert (read(logs, 6.1), logs.zxid) == ([(3, 100)], 3)


def test_missing_end_of_an_epoch_shows_by_a_snapshot(server: Server) -> None:
    logs = server.logs(0)
    server.write(1)
    (server.folder / "snapshot.20").touch()
    server.begin(EPOCH + 1)
    server.write(EPOCH + 1)
    assert read(logs, 0.0) == [1]
    assert read(logs, 3.0) == [(1, EPOCH + 1)]


def test_reading_begins_after_the_given_transaction(server: Server) -> None:
    server.write(1, 2)
    server.begin(3)
    server.write(3, 4)
    assert read(server.logs(3)) == [4]
    assert read(server.logs(1)) == [2, 3, 4]


def test_limit_leaves_the_rest_for_the_next_reading(server: Server) -> None:
    server.write(1, 2, 3)
    logs = server.logs(0)
    assert (read(logs, limit=2), logs.is_at_end) == ([1, 2], False)
    assert (read(logs, limit=2), logs.is_at_end) == ([3], True)
