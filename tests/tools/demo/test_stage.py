"""How a demonstration ends."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tools.demo.stage import DemoFailed, Stage, perform
from tools.lab import LabError


@pytest.mark.parametrize("error", [DemoFailed, LabError, TimeoutError])
def test_failed_check_ends_with_status_1_and_one_clear_line(
    error: type[Exception], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def play(stage: Stage) -> None:
        raise error("acks=all: 3 acknowledged records are lost")

    with pytest.raises(SystemExit) as ended:
        perform(play, tmp_path, "test")
    assert ended.value.code == 1
    output = capsys.readouterr().out
    assert output == (
        f"failed: acks=all: 3 acknowledged records are lost\nServers' logs: {tmp_path}\n"
    )


def test_demonstration_without_failures_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def play(stage: Stage) -> None:
        stage.say("played")

    perform(play, tmp_path, "test")
    assert re.fullmatch(r" +0\.\d s  played\nAll checks passed\.\n", capsys.readouterr().out)


async def play_nothing(stage: Stage) -> None:
    raise AssertionError("the demonstration has begun")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("used", "is not empty"),
        ("used/refold-logs/file", "cannot be used: File exists"),
        ("used/refold-logs/file/below", "cannot be used: Not a directory"),
    ],
)
def test_folder_that_cannot_be_used_ends_the_demonstration_at_once(
    name: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "used" / "refold-logs").mkdir(parents=True)
    (tmp_path / "used" / "refold-logs" / "file").touch()
    folder = tmp_path / name
    with pytest.raises(SystemExit) as ended:
        perform(play_nothing, folder, "test")
    assert ended.value.code == 1
    assert capsys.readouterr().out == f"failed: --folder {folder} {problem}; give a new folder\n"


def test_folder_of_a_demonstration_is_created(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"

    async def play(stage: Stage) -> None:
        assert stage.folder == folder
        assert folder.is_dir()

    perform(play, folder, "test")


def processes_of(folder: Path) -> list[str]:
    """The command lines that name a folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = one.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder) in command and one.parent.name != str(os.getpid()):
            found.append(command)
    return found


@pytest.mark.lab
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.timeout(60)
async def test_interrupted_demonstration_leaves_no_process(
    number: signal.Signals, tmp_path: Path
) -> None:
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.demo.acks", "--folder", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert demo.stdout is not None
    while b"starting broker-3" not in await demo.stdout.readline():
        pass
    assert processes_of(tmp_path / "cluster")
    demo.send_signal(number)
    _, problems = await demo.communicate()
    assert demo.returncode == (130 if number == signal.SIGINT else 1)
    assert problems == b""
    assert not processes_of(tmp_path)
