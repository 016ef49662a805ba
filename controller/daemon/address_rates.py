"""Follows Kafka's quotas of addresses in /config/ips (KIP-612, IpConfigHandler)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

import anyio

from controller.api.messages import AddressRates
from controller.core import znodes
from controller.core.client_address import canonical_address
from controller.core.errors import ZnodeError
from controller.daemon.session_reads import SessionReads
from controller.settings import parsing

logger = logging.getLogger(__name__)

RATE: Final = "connection_creation_rate"
_DEFAULT: Final = "<default>"
_SECONDS: Final = 5.0
_whole_number: Final = parsing.whole_number(0)


class AddressRateReader:
    """Reads the quotas every few seconds, and passes on what changed. They decide nothing in the
    core, and never reach the event log."""

    def __init__(self, reads: SessionReads, apply: Callable[[AddressRates], None]) -> None:
        self._reads = reads
        self._apply = apply
        self._applied = AddressRates()
        self._reported: set[str] = set()

    async def keep(self) -> None:
        """Follow the quotas until cancelled. Those that were read last count while ZooKeeper
        cannot be read."""
        while True:
            found = await self._read()
            if found is not None and found != self._applied:
                self._apply(found)
                self._applied = found
            await anyio.sleep(_SECONDS)

    async def _read(self) -> AddressRates | None:
        names = await self._reads.children(znodes.IP_CONFIGS)
        if names is None:
            return None
        rates: dict[str, int] = {}
        default = None
        for name in names:
            rate = await self._rate(f"{znodes.IP_CONFIGS}/{name}")
            if rate is None:
                continue
            if name == _DEFAULT:
                default = rate
            else:
                rates |= dict.fromkeys(await self._addresses(unquote(name)), rate)
        return AddressRates(rates, default)

    async def _rate(self, path: str) -> int | None:
        try:
            text = znodes.read_config(path, await self._reads.data(path)).get(RATE)
            return None if text is None else _whole_number(text)
        except ZnodeError as error:
            self._warn(str(error))
        except ValueError as error:
            self._warn(f"{path}: {RATE}: must be {error}")
        return None

    async def _addresses(self, host: str) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None)
        except OSError as error:
            self._warn(f"{znodes.IP_CONFIGS}/{host}: the host has no address: {error}")
            return []
        return [canonical_address(str(place[0])) for *_, place in found]

    def _warn(self, text: str) -> None:
        """Log each problem once."""
        if text not in self._reported:
            self._reported.add(text)
            logger.warning("%s; the quota has no effect", text)
