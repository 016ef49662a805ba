"""The disk of a broker: high watermarks, names of files, damaged files."""

from pathlib import Path

import pytest

from controller.kafka_0_8_broker.disk import CHECKPOINT
from controller.kafka_0_8_broker.errors import DiskError

T = ("t", 0)
CZXID = 7
"""The czxid for which logs are opened."""


def test_records_and_high_watermarks_survive_a_restart(open_disk, tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    assert disk.open_log(T, CZXID) == (0, 0)
    disk.append(T, [b"a", b"b"])
    disk.write_checkpoint([("t", 0, 1)])
    disk.close()
    again = open_disk(tmp_path)
    assert again.open_log(T, CZXID) == (2, 1)
    assert again.read(T, 0, 2) == [b"a", b"b"]


def test_checkpoint_keeps_the_high_watermarks_of_other_replicas(open_disk, tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    disk.write_checkpoint([("t", 0, 1), ("t", 1, 5)])
    disk.write_checkpoint([("t", 0, 2)])
    again = open_disk(tmp_path)
    assert [again.open_log(("t", one), CZXID)[1] for one in (0, 1)] == [2, 5]


def test_deleted_replica_leaves_neither_records_nor_high_watermark(
    open_disk, tmp_path: Path
) -> None:
    disk = open_disk(tmp_path)
    disk.open_log(T, CZXID)
    disk.append(T, [b"a"])
    disk.write_checkpoint([("t", 0, 1)])
    disk.close()
    again = open_disk(tmp_path)
    again.delete_log(T)
    assert again.open_log(T, CZXID) == (0, 0)
    assert open_disk(tmp_path).open_log(T, CZXID) == (0, 0)


def test_lost_high_watermarks_are_reported_and_are_0(
    open_disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = open_disk(tmp_path)
    disk.open_log(T, CZXID)
    disk.append(T, [b"a", b"b"])
    disk.write_checkpoint([("t", 0, 2)])
    disk.close()
    (tmp_path / CHECKPOINT).unlink()
    again = open_disk(tmp_path)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    path = tmp_path / CHECKPOINT
    assert (
        f"{path} does not exist, but there are logs of 1 replicas: their high watermarks are 0"
        in (record.getMessage())
    )
    assert "restore the file" in record.getMessage()
    assert again.open_log(T, CZXID) == (2, 0)


def test_broker_that_has_written_no_checkpoint_reports_nothing(
    open_disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = open_disk(tmp_path)
    disk.open_log(T, CZXID)
    disk.append(T, [b"a"])
    disk.close()
    assert open_disk(tmp_path).open_log(T, CZXID) == (1, 0)
    assert caplog.records == []


@pytest.mark.parametrize("is_open", [False, True])
def test_log_of_a_deleted_partition_is_deleted_when_the_name_is_used_again(
    open_disk, tmp_path: Path, is_open: bool
) -> None:
    disk = open_disk(tmp_path)
    disk.open_log(T, CZXID)
    disk.append(T, [b"old"])
    disk.write_checkpoint([("t", 0, 1)])
    if not is_open:
        disk.close()
        disk = open_disk(tmp_path)
    assert disk.open_log(T, CZXID + 1) == (0, 0)
    assert disk.append(T, [b"new"]) == 1
    assert disk.read(T, 0, 1) == [b"new"]
    assert [one.name for one in tmp_path.glob("*.records")] == ["t-0@8.records"]


@pytest.mark.parametrize("topic", ["..", "a/b", "t" * 600, "ü" * 300, "t-1", "%2e", " "])
def test_any_topic_has_a_file_below_the_folder(open_disk, tmp_path: Path, topic: str) -> None:
    folder = tmp_path / "records"
    disk = open_disk(folder)
    for name in ((topic, 0), T):
        disk.open_log(name, CZXID)
        disk.append(name, [b"a"])
    disk.close()
    assert open_disk(folder).open_log((topic, 0), CZXID) == (1, 0)
    assert [one.name for one in tmp_path.iterdir()] == ["records"]
    assert len(list(folder.glob("*.records"))) == 2


@pytest.mark.parametrize("garbage", [b"", b"{}", b"[1]", b"\xff", b'[["t",0,"x"]]'])
def test_unreadable_checkpoint_is_named_and_not_taken_for_an_empty_one(
    open_disk, tmp_path: Path, garbage: bytes
) -> None:
    (tmp_path / CHECKPOINT).write_bytes(garbage)
    with pytest.raises(DiskError, match=f"{CHECKPOINT} cannot be read as high watermarks"):
        open_disk(tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == garbage


def test_half_written_checkpoint_is_not_used(open_disk, tmp_path: Path) -> None:
    open_disk(tmp_path).write_checkpoint([("t", 0, 3)])
    (tmp_path / CHECKPOINT).with_suffix(".partial").write_bytes(b'[["t",0')
    assert open_disk(tmp_path).open_log(T, CZXID) == (0, 3)


def test_torn_tail_is_reported(open_disk, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = open_disk(tmp_path)
    disk.open_log(T, CZXID)
    disk.append(T, [b"a", b"b"])
    disk.close()
    (file,) = tmp_path.glob("*.records")
    file.write_bytes(file.read_bytes()[:-1])
    assert open_disk(tmp_path).open_log(T, CZXID) == (1, 0)
    (line,) = caplog.messages
    assert line == f"{file} ended with 8 bytes that are no whole record: they were removed"


def test_missing_committed_records_are_reported_as_damage(
    open_disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = open_disk(tmp_path)
    disk.open_log(T, CZXID)
    disk.append(T, [b"a", b"b"])
    disk.write_checkpoint([("t", 0, 2)])
    disk.close()
    (file,) = tmp_path.glob("*.records")
    file.write_bytes(b"")
    open_disk(tmp_path).open_log(T, CZXID)
    assert caplog.messages == [f"{file} has 0 records, but 2 were committed: the file is damaged"]


def test_file_that_cannot_be_opened_is_named(open_disk, tmp_path: Path) -> None:
    (tmp_path / "t-0@7.records").mkdir()
    with pytest.raises(DiskError, match=r"t-0@7\.records: Is a directory; check the disk"):
        open_disk(tmp_path).open_log(T, CZXID)
