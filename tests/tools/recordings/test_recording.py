"""`refold import` reads a recording of a stock cluster."""

import asyncio
import json
import sys
import tarfile
from pathlib import Path

import pytest

from tools.lab.refold import run
from tools.recordings.brokers import log_names

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


async def test_short_incident_is_recorded_and_imported(tmp_path: Path) -> None:
    folder = tmp_path / "short-4"

    await record("--seed=4", "--mix=controller", "--seconds=10", "--brokers=3", f"--out={folder}")

    scenario = json.loads((folder / "scenario.json").read_text())
    assert scenario["error"] is None
    assert {action["action"] for action in scenario["actions"]} >= {"start_cluster", "topic_create"}
    logs = {str(one.relative_to(folder / "logs")) for one in folder.glob("logs/*/*.log")}
    assert logs == {f"broker-{n}/{name}" for n in (1, 2, 3) for name in log_names("full")}
    with tarfile.open(f"{folder}.tar.xz") as archive:
        assert "short-4/final.json" in archive.getnames()

    status, output = await run("import", f"{folder}.tar.xz", "--out", f"{tmp_path}/log", "--json")

    assert status == 0, output
    assert json.loads(output.splitlines()[-1])["terms"] > 1
    status, output = await run("log", "verify", f"{tmp_path}/log")
    assert status == 0, output


async def record(*options: str) -> None:
    """Run the recorder in a separate process: kafka-python's admin client leaves threads and
    sockets when no broker answers."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.recordings", "record", "--pack", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
