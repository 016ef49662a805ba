"""The commands of a page in docs/runbooks, run word for word."""

import asyncio
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from tools.lab.refold import command
from tools.setup.jars import fetch
from tools.setup.java import find_java

FOLDER: Final = Path(__file__).parents[3] / "docs" / "runbooks"


class Runbook:
    """Runs the commands of a page in their order. `places` are the words to replace, as the page
    says."""

    def __init__(self, name: str, folder: Path, places: Mapping[str, str]) -> None:
        tokens = MarkdownIt().parse((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
        blocks = (one.content for one in tokens if one.type == "fence" and one.info == "sh")
        self._commands = [
            line for block in blocks for line in block.replace("\\\n", "").splitlines()
        ]
        self._places = places
        self._folder = folder
        self._path = folder / "bin"
        self._path.mkdir()
        self._add("refold", *command())
        # As Kafka's bin/zookeeper-shell.sh.
        main = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
        jars = fetch("kafka-3.9.1")
        self._add("zookeeper-shell.sh", find_java(), "-cp", f"{jars}/*", main, "-server")

    @property
    def is_done(self) -> bool:
        """Whether every command of the page was run."""
        return not self._commands

    def _add(self, name: str, *start: str | Path) -> None:
        """Add a command to the runbook's PATH."""
        script = self._path / name
        script.write_text(f'#!/bin/bash\nexec {shlex.join(map(str, start))} "$@"\n')
        script.chmod(0o755)

    def skip(self) -> None:
        """Leave the next command out: it is for another cause."""
        self._commands.pop(0)

    async def step(self, **places: str) -> tuple[int, str]:
        """Run the next command. Returns its exit status and its output."""
        found = await self.preview(**places)
        self._commands.pop(0)
        return found

    async def preview(self, **places: str) -> tuple[int, str]:
        """The same, but the command remains the next one: an operator runs it again."""
        line = self._commands[0]
        for word, place in {**self._places, **places}.items():
            line = line.replace(word, place)
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", line),
            cwd=self._folder,
            env={**os.environ, "PATH": f"{self._path}:{os.environ['PATH']}"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    async def expect(self, status: int = 0, *words: str, **places: str) -> str:
        """Run the next command, which must exit with this status and print these words. Returns
        its output."""
        found, output = await self.step(**places)
        assert found == status, output
        assert [word for word in words if word not in output] == [], output
        return output
