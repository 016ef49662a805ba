"""Logs are private: other users neither read their files nor write their folders."""

import os
import stat
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from eventstore import folders, stream
from eventstore.copying import copy_log
from eventstore.errors import LogExposed
from eventstore.mirror.outbox import PublishedPosition
from eventstore.mirror.progress import MirrorProgress, write_progress
from eventstore.snapshots import put_snapshot
from eventstore.writer import LogWriter
from tests.eventstore.samples import events, header, write_log


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The files would be readable and writable by everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """The mode of a folder and of all in it."""
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in (folder, *folder.rglob("*"))}


def assert_private(folder: Path) -> None:
    for name, mode in modes(folder).items():
        assert mode == (0o700 if (folder / name).is_dir() or name == folder.name else 0o600), name


def test_files_of_a_log_that_is_written_are_private(tmp_path: Path) -> None:
    parent = tmp_path / "logs"
    with LogWriter.create(parent / "run", header(), segment_bytes=1) as writer:
        writer.append(events(1, 3))
        put_snapshot(writer.folder, "core", 3, b"state")
        write_progress(writer.folder, MirrorProgress("t", 0, 0, PublishedPosition(0, 0)))
        writer.roll_if_due()
        writer.append(events(4, 5))
        written = modes(parent)
        assert_private(parent)
    assert len([one for one in written if "-wal" in one or "-shm" in one]) == 2
    assert sum(one.endswith(".refold") for one in written) == 2
    assert any(one.endswith(".snapshot") for one in written)
    assert {"lock", "mirrored.json"} <= written.keys()


def test_copies_are_private_whatever_the_original_is(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log")
    put_snapshot(log, "core", 3, b"state")
    for file in log.iterdir():
        file.chmod(0o666)
    copy_log(log, tmp_path / "copy")
    sent = BytesIO()
    stream.send(log, sent)
    (tmp_path / "received").mkdir(0o700)
    stream.receive(BytesIO(sent.getvalue()), tmp_path / "received")
    for name in ("copy", "received"):
        assert any(one.endswith(".snapshot") for one in modes(tmp_path / name))
        assert_private(tmp_path / name)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(LogExposed, match=f"{folder}: other users may write it .mode 0*{mode:o}."):
        LogWriter.create(folder, header())
    assert list(folder.iterdir()) == []
    folder.chmod(0o755)
    LogWriter.create(folder, header()).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir(0o755)
    os.chown(folder, 12345, -1)
    with pytest.raises(LogExposed, match="belongs to user 12345"):
        LogWriter.create(folder, header())


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_folder_below_one_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    parent = tmp_path / "parent"
    folder = parent / "between" / "log"
    parent.mkdir()
    parent.chmod(mode)
    message = (
        f"{folder}: other users may replace it, because they may write {parent} .mode 0{mode:o}"
    )
    with pytest.raises(LogExposed, match=message):
        LogWriter.create(folder, header())
    assert list(folder.iterdir()) == []
    parent.chmod(mode | 0o1000)
    LogWriter.create(folder, header()).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_folder_below_one_that_another_group_may_write_is_refused(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    parent.chmod(0o775)
    LogWriter.create(parent / "log", header()).close()
    os.chown(parent, -1, 12345)
    with pytest.raises(LogExposed, match=f"they may write {parent} .mode 0775.: run chmod go-w or"):
        LogWriter.create(parent / "other", header())


def test_folder_named_by_a_link_is_checked_where_it_is(tmp_path: Path) -> None:
    real = tmp_path / "open" / "log"
    real.mkdir(parents=True, mode=0o700)
    real.parent.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(real)
    with pytest.raises(LogExposed, match=f"they may write {real.parent} "):
        LogWriter.create(link, header())


def test_link_in_place_of_a_new_file_is_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("mine")
    link.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        folders.make_private_file(link)
    assert target.read_text() == "mine"


def test_folders_that_stay_empty_are_deleted_again(tmp_path: Path) -> None:
    with folders.private_folder(tmp_path / "parent" / "logs"):
        assert_private(tmp_path / "parent")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_existed_or_has_a_file_is_kept(tmp_path: Path) -> None:
    with folders.private_folder(tmp_path):
        pass
    with folders.private_folder(tmp_path / "parent" / "logs"):
        (tmp_path / "parent" / "file").touch()
    assert [one.name for one in (tmp_path / "parent").iterdir()] == ["file"]
