"""The distribution of a measured value: a count, and quantiles of the latest values."""

from collections import deque
from typing import Final

QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""The quantiles of Kafka's histograms, in the notation of jmx_exporter's rules."""

_KEPT: Final = 1_028
"""The size of Kafka's reservoirs. Kafka keeps a random sample of the last minutes; a fold has no
randomness and keeps the latest values."""


class Distribution:
    """Counts values, and keeps the latest of them."""

    def __init__(self) -> None:
        self.count = 0
        self._values = deque[float](maxlen=_KEPT)

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self._values.append(value)

    def clear(self) -> None:
        """Forget all values."""
        self.count = 0
        self._values.clear()

    def quantiles(self) -> list[float]:
        """One value for each of QUANTILES, interpolated as in Kafka (Yammer's Snapshot); zeros if
        there is no value."""
        ordered = sorted(self._values)
        return [_quantile(ordered, float(one)) for one in QUANTILES]


def _quantile(ordered: list[float], quantile: float) -> float:
    if not ordered:
        return 0.0
    # At least 1, because the lowest quantile is the median.
    position = quantile * (len(ordered) + 1)
    if position >= len(ordered):
        return ordered[-1]
    lower, upper = ordered[int(position) - 1], ordered[int(position)]
    return lower + (position - int(position)) * (upper - lower)
