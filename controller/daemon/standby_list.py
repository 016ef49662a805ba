"""Which daemons run as standbys of a cluster, for `refold status` and the operator.

Each daemon with `refold.standby` has an ephemeral znode below /refold/standbys, which ends with the
daemon's session. Kafka knows no znode /refold. No decision depends on these znodes, so they are in
no event log, and a separate session writes them: the sessions of a controller write what Kafka's
controller writes. The name of a znode is random, so no daemon writes the znode of another one.
"""

import logging
import socket
from collections.abc import Iterable
from secrets import token_hex
from typing import Final

import anyio
import msgspec

from controller.core.errors import ZnodeError
from controller.core.operations import NODE_EXISTS, OK, Create
from controller.core.znodes.schema import decode_znode
from controller.fingerprint import core_fingerprint
from controller.operator.daemon_status import DaemonStatus, StandbyStatus
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.settings.settings import Settings

STANDBYS: Final = "/refold/standbys"
_PARENTS: Final = ("/refold", STANDBYS)
_PAUSE_SECONDS: Final = 1.0

_decoder: Final = msgspec.json.Decoder(StandbyStatus)

logger = logging.getLogger(__name__)


class StandbyList:
    """The standbys of a cluster, as one of them sees them. `others`: those without this daemon;
    None while they are not known, and then `fault` says why, "" at the start."""

    def __init__(self, settings: Settings, own: DaemonStatus) -> None:
        """`own` is this daemon."""
        self._settings = settings
        self._own = StandbyStatus(
            socket.gethostname(),
            own.process,
            own.broker_id,
            own.version,
            core_fingerprint(),
            own.started,
        )
        self._name = token_hex(8)
        self._reported = ""
        self.fault = ""
        self.others: list[StandbyStatus] | None = None

    async def keep(self) -> None:
        """Be in the list, and follow it, until cancelled."""
        while True:
            try:
                async with ZooKeeperClient(
                    self._settings.zookeeper,
                    self._settings.session_timeout_ms,
                    self._settings.security.zookeeper,
                ) as client:
                    await self._follow(client)
            except ZooKeeperUnavailable as error:
                # The daemon's own session reports that.
                self.fault = str(error)
                await anyio.sleep(_PAUSE_SECONDS)

    async def _follow(self, client: ZooKeeperClient) -> None:
        while True:
            changed = client.changed
            try:
                names = await client.children(STANDBYS, watch=True)
                if self._name not in names:
                    # At the start, and after the end of the session that had the znode.
                    await self._join(client)
                    names = await client.children(STANDBYS, watch=True)
                self.others = await self._read_standbys(client, names)
                self.fault = self._reported = ""
            except ZooKeeperUnavailable as error:
                self.others = None
                self._report(str(error))
            await changed.wait()

    async def _join(self, client: ZooKeeperClient) -> None:
        """Create the daemon's znode. Raises ZooKeeperUnavailable."""
        data = msgspec.json.encode(self._own)
        for create in (
            *(Create(path, b"") for path in _PARENTS),
            Create(f"{STANDBYS}/{self._name}", data, ephemeral=True),
        ):
            error = await client.write((create,))
            if error not in (OK, NODE_EXISTS):
                text = f"{create.path} cannot be created (ZooKeeper code {error})"
                raise ZooKeeperUnavailable(text)

    async def _read_standbys(
        self, client: ZooKeeperClient, names: Iterable[str]
    ) -> list[StandbyStatus]:
        """The other standbys, out of all with these names."""
        paths = [f"{STANDBYS}/{name}" for name in names if name != self._name]
        found = zip(paths, await client.read(tuple(paths)), strict=True)
        standbys = [_standby(path, one.data) for path, one in found if one is not None]
        return [one for one in standbys if one is not None]

    def _report(self, fault: str) -> None:
        if fault != self._reported:
            text = "the standbys of the cluster are not known, `refold status` shows none: %s"
            logger.warning(text, fault)
        self.fault = self._reported = fault


def _standby(path: str, data: bytes | None) -> StandbyStatus | None:
    """None if another program has written the znode."""
    try:
        return decode_znode(_decoder, path, "a standby", data)
    except ZnodeError:
        return None
