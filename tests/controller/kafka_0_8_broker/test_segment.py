"""The file of records: what survives a torn write, a damaged record and a truncation."""

from pathlib import Path

import pytest

from controller.kafka_0_8_broker.disk import RESPONSE_BYTES_MAX
from controller.kafka_0_8_broker.messages import FRAME_BYTES_MAX, FetchResponse, framed
from controller.kafka_0_8_broker.segment import RECORD_BYTES_MAX, Segment

ALL = 1 << 30
RECORDS = [b"a", b"", b"ccc"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with RECORDS."""
    segment = Segment(tmp_path / "t-0.records")
    assert segment.append(RECORDS) == 3
    segment.close()
    return tmp_path / "t-0.records"


def records_of(path: Path) -> list[bytes]:
    """The content that a broker finds if it starts now."""
    segment = Segment(path)
    found = segment.read(0, segment.leo, ALL)
    segment.close()
    return found


def test_records_are_read_back_after_a_restart(path: Path) -> None:
    assert records_of(path) == RECORDS


@pytest.mark.parametrize("missing", [1, 2, 3, 4, 8, 10])
def test_torn_record_at_the_end_is_cut_at_the_start(open_segment, path: Path, missing: int) -> None:
    path.write_bytes(path.read_bytes()[:-missing])
    segment = open_segment(path)
    assert segment.leo == 2
    assert segment.cut_bytes == 11 - missing
    assert segment.append([b"d"]) == 3
    segment.close()
    assert records_of(path) == [b"a", b"", b"d"]


def test_whole_file_has_nothing_to_cut(open_segment, path: Path) -> None:
    assert open_segment(path).cut_bytes == 0


def test_changed_record_and_what_follows_it_are_cut(open_segment, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8] ^= 1
    path.write_bytes(content)
    segment = open_segment(path)
    assert segment.leo == 0
    assert path.stat().st_size == 0


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 100, b"\0\0\0\1" + b"x" * 3, b"\0" * 7, b"\0" * 4096]
)
def test_garbage_at_the_end_is_cut(path: Path, garbage: bytes) -> None:
    path.write_bytes(path.read_bytes() + garbage)
    assert records_of(path) == RECORDS


def test_longest_record_is_stored(open_segment, tmp_path: Path) -> None:
    segment = open_segment(tmp_path / "t-0.records")
    segment.append([b"x" * RECORD_BYTES_MAX])
    segment.close()
    assert len(records_of(tmp_path / "t-0.records")[0]) == RECORD_BYTES_MAX


@pytest.mark.parametrize(
    ("offset", "left"), [(0, []), (1, RECORDS[:1]), (3, RECORDS), (9, RECORDS)]
)
def test_truncation_removes_the_records_from_the_offset_on(
    open_segment, path: Path, offset: int, left: list[bytes]
) -> None:
    segment = open_segment(path)
    assert segment.truncate(offset) == len(left)
    assert segment.append([b"next"]) == len(left) + 1
    segment.close()
    assert records_of(path) == [*left, b"next"]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 3, RECORDS), (1, 2, [b""]), (2, 9, [b"ccc"]), (3, 3, []), (5, 9, [])],
)
def test_range_of_records_is_read(
    open_segment, path: Path, start: int, end: int, found: list[bytes]
) -> None:
    assert open_segment(path).read(start, end, ALL) == found


def test_read_is_limited_but_returns_at_least_one_record(open_segment, tmp_path: Path) -> None:
    segment = open_segment(tmp_path / "t-0.records")
    segment.append([b"x" * 10, b"y" * 10, b"z"])
    assert segment.read(0, 3, 5) == [b"x" * 10]
    assert segment.read(0, 3, 36) == [b"x" * 10, b"y" * 10]


@pytest.mark.parametrize("length", [0, 100])
def test_response_with_short_records_fits_into_a_frame(
    open_segment, tmp_path: Path, length: int
) -> None:
    segment = open_segment(tmp_path / "t-0.records")
    count = FRAME_BYTES_MAX // (length + 2) + 1
    segment.append([b"x" * length] * count)
    records = segment.read(0, count, RESPONSE_BYTES_MAX)
    assert 0 < len(records) < count
    assert len(framed(FetchResponse(1, 0, records, count, count))) < FRAME_BYTES_MAX


def test_deleted_segment_leaves_no_file(open_segment, path: Path) -> None:
    open_segment(path).delete()
    assert not path.exists()
