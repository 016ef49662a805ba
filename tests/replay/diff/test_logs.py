"""The accepted inputs of a diff: logs, packed logs, incidents, recordings, and folders of them."""

import shutil
import socket
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from eventstore.folders import segments_in
from replay.diff.logs import NamedLog, open_logs
from replay.errors import DiffError
from tests.replay.diff.versions import CRASH, INCIDENTS, ROOT
from tests.replay.recorded_log import incident, write_log


def names(*given: Path) -> list[str]:
    with open_logs(given) as found:
        assert all(any(one.path.iterdir()) for one in found)
        return [Path(one.name).name for one in found]


def test_folder_of_incidents_may_have_other_files() -> None:
    found = names(INCIDENTS)
    assert found == sorted(one.name for one in INCIDENTS.iterdir() if one.is_dir())


def test_log_packed_log_and_recording_are_accepted(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident())
    packed = tmp_path / "crash.tar.xz"
    shutil.copy(CRASH / "log.tar.xz", packed)
    recording = ROOT / "tests" / "recordings" / "topics-1.tar.xz"
    assert names(log, packed, recording) == ["log", "crash.tar.xz", "topics-1.tar.xz"]
    (tmp_path / "notes.txt").write_text("")
    assert names(tmp_path) == ["crash.tar.xz", "log"]


def test_folder_of_logs_may_have_the_socket_of_a_daemon(tmp_path: Path) -> None:
    write_log(tmp_path / "log", incident())
    with TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{short}/status-1.sock")
        Path(short, "status-1.sock").rename(tmp_path / "status-1.sock")
        assert names(tmp_path) == ["log"]


def test_unpacked_recording_is_accepted(tmp_path: Path) -> None:
    with tarfile.open(ROOT / "tests" / "recordings" / "topics-1.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    assert names(tmp_path / "topics-1") == ["topics-1"]


def test_segment_of_a_log_is_accepted(tmp_path: Path) -> None:
    [segment] = segments_in(write_log(tmp_path / "log", incident()))
    with open_logs([segment]) as found:
        assert found == [NamedLog(str(segment), segment)]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nothing", "does not exist"),
        ("notes.txt", "is not a log: neither a folder of segments nor a packed log"),
    ],
)
def test_path_that_is_no_log_is_rejected(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(DiffError, match=f"^{tmp_path / name} {why}$"):
        names(tmp_path / name)


def test_empty_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DiffError, match="nor a folder of logs"):
        names(tmp_path)
