"""Archives of strangers: nothing in them is executed, followed or written elsewhere, and the disk
remains free."""

import lzma
import os
import pickle
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from eventstore.errors import LogCorrupt, NotALog
from replay.errors import ReplayError
from replay.export import importing
from replay.export.files import old_file
from replay.logs.open_log import open_reader
from replay.stock_clusters.zookeeper_log import source
from replay.stock_clusters.zookeeper_log.source import open_source
from tests.replay.stock_clusters.zookeeper_log.test_source import ONE_SERVER, pack

SEGMENT = "log/00000000000000000001.refold"


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:xz") as packed:
        for member, content in members:
            member.size = len(content)
            packed.addfile(member, BytesIO(content))
    return path


class FileCreatingPickle:
    """Its pickle creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._path),)


def test_pickle_in_place_of_a_segment_is_not_loaded(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    content = pickle.dumps(FileCreatingPickle(marker))
    packed = archive(tmp_path / "log.tar.xz", (tarfile.TarInfo(SEGMENT), content))
    with pytest.raises(NotALog, match="is not an SQLite file"), open_reader(packed):
        pass
    (tmp_path / "log").mkdir()
    (tmp_path / SEGMENT).write_bytes(content)
    with pytest.raises(NotALog, match="is not an SQLite file"), open_reader(tmp_path / "log"):
        pass
    assert not marker.exists()
    pickle.loads(content)
    assert marker.exists(), "the pickle works"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_link_in_place_of_a_segment_is_not_followed(tmp_path: Path, kind: bytes) -> None:
    link = tarfile.TarInfo(SEGMENT)
    link.type, link.linkname = kind, "/etc/passwd"
    packed = archive(tmp_path / "log.tar.xz", (link, b""))
    with pytest.raises(ReplayError, match="cannot be opened"), open_reader(packed):
        pass


def test_segment_with_a_path_outside_is_not_written(tmp_path: Path) -> None:
    outside = tarfile.TarInfo(f"../../{SEGMENT}")
    packed = archive(tmp_path / "log.tar.xz", (outside, b"x"))
    with pytest.raises(ReplayError, match="outside the destination"), open_reader(packed):
        pass
    assert [one.name for one in tmp_path.iterdir()] == ["log.tar.xz"]


def test_archive_that_claims_to_be_too_large_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "log.tar.xz"
    bomb = tarfile.TarInfo(SEGMENT)
    bomb.size = 1 << 40
    path.write_bytes(lzma.compress(bomb.tobuf()))
    with pytest.raises(ReplayError, match="unpacks to more bytes than logs"), open_reader(path):
        pass


def test_recording_that_unpacks_to_too_much_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack(tmp_path / "x.tar", ONE_SERVER)
    with open_source(packed) as found:
        assert not found.notes
    monkeypatch.setattr(source, "UNPACKED_BYTES_MIN", 100)
    monkeypatch.setattr(source, "UNPACKED_RATIO_MAX", 0)
    with pytest.raises(ReplayError, match="unpacks to more bytes than logs"), open_source(packed):
        pass


def test_line_of_an_export_that_does_not_end_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "LINE_BYTES_MAX", 1000)
    (tmp_path / "log.jsonl.xz").write_bytes(lzma.compress(b" " * 1_000_000))
    with (
        old_file(tmp_path / "log.jsonl.xz") as file,
        pytest.raises(LogCorrupt, match="impossible length"),
    ):
        importing.import_lines(file, "log.jsonl.xz", tmp_path / "log")
    assert not (tmp_path / "log").exists()
