"""Applies Kafka's quotas of addresses to new connections (KIP-612, ConnectionQuotas). Pure."""

from typing import Final

from controller.api.messages import AddressRates

_ADDRESSES_MAX: Final = 10_000
"""The maximum number of addresses whose connections are remembered."""


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
