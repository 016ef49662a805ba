"""Accepts connections at the rates of Kafka's ConnectionQuotas: of listeners and of addresses
(KIP-612)."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from controller.api.connection_counts import ListenerCounts
from controller.api.front.request_quotas import RateLimiter
from controller.api.front.streams import READ_AHEAD_BYTES
from controller.api.limits import EndpointLimits
from controller.api.messages import AddressRates

_PAUSE_SECONDS: Final = 1.0
_ADDRESSES_MAX: Final = 10_000
"""The maximum number of addresses whose connections are remembered."""

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
        """Change the rate of all listeners together. It is also the limit of a listener without a
        separate rate."""
        limits = self._limits
        self._all = self._limiter(rate)
        for listener in self._names:
            quota = limits.of_listeners.get(listener)
            own = quota.creation_rate if quota is not None else limits.creation_rate
            is_separate = own != limits.creation_rate
            if listener not in self._of_listeners or not is_separate:
                self._of_listeners[listener] = self._limiter(own if is_separate else rate)

    def limiters_of(self, listener: str) -> list[RateLimiter]:
        """The limiters of a listener."""
        limiters = [self._of_listeners.get(listener)]
        if listener != self._limits.exempt_listener:
            limiters.append(self._all)
        return [one for one in limiters if one is not None]

    def _limiter(self, rate: int | None) -> RateLimiter | None:
        if rate is None:
            return None
        return RateLimiter(rate, burst=rate * self._limits.creation_burst_seconds)


class AddressQuotas:
    """The rates of addresses, and what they have used. As in Kafka, the connections of
    `burst_seconds` may come at once."""

    def __init__(self, burst_seconds: int) -> None:
        self._burst_seconds = burst_seconds
        self._rates = AddressRates()
        # The address that connected last is the last one.
        self._paid_until_s: dict[str, float] = {}

    def set(self, rates: AddressRates) -> None:
        """The rates from now on."""
        self._rates = rates

    def admit(self, address: str, now_s: float) -> bool:
        """Count a new connection. Returns whether the rate of its address allows it."""
        rate = self._rates.rates.get(address, self._rates.default)
        if rate is None:
            return True
        paid_until_s = max(self._paid_until_s.pop(address, 0.0), now_s)
        is_allowed = rate > 0 and paid_until_s - now_s <= self._burst_seconds - 1 / rate
        self._paid_until_s[address] = paid_until_s + (1 / rate if is_allowed else 0)
        if len(self._paid_until_s) > _ADDRESSES_MAX:
            del self._paid_until_s[next(iter(self._paid_until_s))]
        return is_allowed


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
