"""A real ZooKeeper server: version 3.9 from pyspark, or an older one fetched by Ivy."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from tools.lab.java import java_command
from tools.lab.ports import HOST, free_port
from tools.lab.server import Server

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
_MEMBER_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LATEST = "3.9.5"
"""The version that pyspark contains."""


class ZooKeeperServer(Server):
    """A standalone server, or a member of an ensemble if `config` names the servers; the caller
    writes the member's number into data/myid. All four-letter commands are allowed."""

    def __init__(
        self,
        folder: Path,
        jars: Path,
        *,
        name: str = "zookeeper",
        config: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        super().__init__(name, folder, free_port())
        self._jars = jars
        self._config = dict(config or {})
        self._java_options = tuple(java_options)

    def _command(self) -> Sequence[str]:
        settings = {
            # A session timeout is at least two ticks; tests use short ones.
            "tickTime": "500",
            "maxSessionTimeout": "60000",
            "dataDir": str(self.folder / "data"),
            "clientPortAddress": HOST,
            "clientPort": str(self.port),
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": "0",
            **self._config,
        }
        configuration = self.folder / "zoo.cfg"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        is_member = any(key.startswith("server.") for key in settings)
        return java_command(
            self._jars,
            _MEMBER_CLASS if is_member else MAIN_CLASS,
            str(configuration),
            folder=self.folder,
            options=("-Xmx512m", "-Dzookeeper.jmx.log4j.disable=true", *self._java_options),
        )

    async def _answers(self) -> bool:
        try:
            with anyio.fail_after(2):
                return "Mode:" in await self.four_letter_word("srvr")
        except OSError:
            return False

    async def ephemerals(self) -> set[str]:
        """The path of every ephemeral znode; none if the server is not running."""
        if not self.running:
            return set()
        dump = await self.four_letter_word("dump")
        return {line.strip() for line in dump.splitlines() if line.strip().startswith("/")}

    async def four_letter_word(self, word: str) -> str:
        """The response to an administrative command such as `srvr`, `wchs` or `cons`."""
        answer = b""
        async with await anyio.connect_tcp(HOST, self.port) as stream:
            await stream.send(word.encode())
            try:
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return answer.decode()
