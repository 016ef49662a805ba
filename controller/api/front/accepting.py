"""Accepts the connections of one listener, at the rates of Kafka's ConnectionQuotas."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from controller.api.connection_counts import ListenerCounts
from controller.api.front.request_quotas import RateLimiter
from controller.api.front.streams import READ_AHEAD_BYTES
from controller.api.limits import Limits

_PAUSE_SECONDS: Final = 1.0

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


class CreationRates:
    """max.connection.creation.rate, for all listeners and for each. The inter-broker listener is
    not limited by what other listeners accept."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all = self._limiter(limits.creation_rate)

    def of(self, listener: str) -> list[RateLimiter]:
        """The limiters of a listener, new for each call but the common one."""
        quota = self._limits.of_listeners.get(listener)
        limiters = [self._limiter(quota.creation_rate if quota else None)]
        if listener != self._limits.exempt_listener:
            limiters.append(self._all)
        return [one for one in limiters if one is not None]

    def _limiter(self, rate: int | None) -> RateLimiter | None:
        if rate is None:
            return None
        return RateLimiter(rate, burst=rate * self._limits.creation_burst_seconds)


async def accept_connections(
    listening: socket.socket,
    limiters: Sequence[RateLimiter],
    counts: ListenerCounts,
    connected: Connected,
) -> None:
    """Accept connections until cancelled. The next ones wait in the kernel until the rates allow
    them."""
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    while True:
        try:
            accepted, _ = await loop.sock_accept(listening)
        except OSError:
            # Most often too many files are open.
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        begun = loop.time()
        try:
            for one in limiters:
                await one.acquire(1)
        except BaseException:
            accepted.close()
            raise
        counts.throttled_ms += int((loop.time() - begun) * 1000)
        counts.created += 1
        reader = asyncio.StreamReader(limit=READ_AHEAD_BYTES)
        protocol = partial(asyncio.StreamReaderProtocol, reader, connected)
        try:
            await loop.connect_accepted_socket(protocol, accepted)
        except OSError:
            accepted.close()  # The client has disconnected.
        # Many may wait: let those that are accepted run, too.
        await asyncio.sleep(0)
