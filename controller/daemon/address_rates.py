"""Follows Kafka's quotas of addresses in /config/ips (KIP-612, IpConfigHandler)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from controller.api.messages import AddressRates
from controller.core import znodes
from controller.core.client_address import canonical_address
from controller.core.errors import ZnodeError
from controller.daemon.followed_settings import FollowedSettings
from controller.daemon.session_reads import SessionReads
from controller.settings import parsing

logger = logging.getLogger(__name__)

RATE: Final = "connection_creation_rate"
_DEFAULT: Final = "<default>"
_whole_number: Final = parsing.whole_number(0)


class AddressRateReader(FollowedSettings[AddressRates]):
    """Reads the quotas of addresses."""

    LOGGER = logger
    NO_EFFECT = "the quota has no effect"

    def __init__(self, reads: SessionReads, apply: Callable[[AddressRates], None]) -> None:
        super().__init__(reads, apply, AddressRates())

    async def _read(self) -> AddressRates:
        rates: dict[str, int] = {}
        default = None
        for name in await self._reads.children(znodes.IP_CONFIGS):
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
