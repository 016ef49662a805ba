"""Several AlterPartition requests can have the same line in controller.log, because it names only
the partitions that are written. The order of these requests is open, also at level DEBUG."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from replay.agreement.comparison import agree, temporary_import
from replay.agreement.results import AgreementResult
from replay.stock_clusters.imports.importing import Selection

Get = Callable[[str], Path]

_TIME_BYTES: Final = 25
_DURATION: Final = re.compile(rb'"totalTimeMs":[\d.]+')


def exchange_times(log: Path, number: int) -> None:
    """Give a line of a request log and the next one each other's place, time and duration, so that
    the second request seems to have been processed first."""
    lines = log.read_bytes().splitlines(keepends=True)
    first, second = lines[number : number + 2]
    assert all(b'"requestApiKeyName":"ALTER_PARTITION"' in one for one in (first, second))
    lines[number : number + 2] = [with_time_of(first, second), with_time_of(second, first)]
    log.write_bytes(b"".join(lines))


def with_time_of(other: bytes, line: bytes) -> bytes:
    duration = _DURATION.search(other)
    assert duration is not None
    return other[:_TIME_BYTES] + _DURATION.sub(duration[0], line[_TIME_BYTES:])


def compared(folder: Path, orders: int) -> AgreementResult:
    with temporary_import(folder, Selection(), lambda *_: None) as log:
        return agree(log, orders=orders)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("recording", "log", "number", "count"),
    [
        ("broker-crash-2", "logs/broker-3/control-requests.log", 24, 1),
        ("controller-20261103", "logs/broker-2/control-requests.log", 31, 3),
    ],
)
def test_two_requests_with_the_same_line_are_processed_in_either_order(
    recording: str, log: str, number: int, count: int, folder_of: Get, tmp_path: Path
) -> None:
    copy = tmp_path / recording
    shutil.copytree(folder_of(recording), copy)
    exchange_times(copy / log, number)
    in_one_order = compared(copy, orders=0)
    assert {one.differences[0].partition(": ")[2] for one in in_one_order.divergences} == {
        "sent at another position in the broker's queue"
    }
    assert len(in_one_order.divergences) == count
    result = compared(copy, orders=100)
    assert result.agrees
    assert {one.explained for one in result.divergences} == {"either-order"}
    assert len(result.divergences) == count
