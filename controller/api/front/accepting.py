"""Accepts the connections of one listener, at the rates of Kafka's ConnectionQuotas."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from controller.api.connection_counts import ListenerCounts
from controller.api.front.request_quotas import RateLimiter
from controller.api.front.streams import READ_AHEAD_BYTES
from controller.api.limits import EndpointLimits

_PAUSE_SECONDS: Final = 1.0

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


class CreationRates:
    """max.connection.creation.rate, for all listeners and for each. The inter-broker listener is
    not limited by what other listeners accept."""

    def __init__(self, limits: EndpointLimits, listeners: Iterable[str] = ()) -> None:
        self._limits = limits
        self._names = dict.fromkeys([*limits.of_listeners, *listeners])
        self._all: RateLimiter | None = None
        self._of_listeners: dict[str, RateLimiter | None] = {}
        self.set(limits.creation_rate)

    def set(self, rate: int | None) -> None:
        """Change the common rate, which listeners without a separate one have too."""
        limits = self._limits
        self._all = self._limiter(rate)
        for listener in self._names:
            quota = limits.of_listeners.get(listener)
            own = quota.creation_rate if quota is not None else limits.creation_rate
            is_separate = own != limits.creation_rate
            if listener not in self._of_listeners or not is_separate:
                self._of_listeners[listener] = self._limiter(own if is_separate else rate)

    def of(self, listener: str) -> list[RateLimiter]:
        """The limiters of a listener."""
        limiters = [self._of_listeners.get(listener)]
        if listener != self._limits.exempt_listener:
            limiters.append(self._all)
        return [one for one in limiters if one is not None]

    def _limiter(self, rate: int | None) -> RateLimiter | None:
        if rate is None:
            return None
        return RateLimiter(rate, burst=rate * self._limits.creation_burst_seconds)


async def accept_connections(
    listening: socket.socket,
    limiters: Callable[[], Sequence[RateLimiter]],
    counts: ListenerCounts,
    connected: Connected,
) -> None:
    """Accept connections until cancelled. The next ones wait in the kernel until the rates of
    `limiters`, which may change, allow them."""
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
            for one in limiters():
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
