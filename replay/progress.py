"""The progress of long work; everything in replay reports it in this way."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Called with the name of the work, the amount that is done, and the total (None if unknown). The
unit depends on the work: records, bytes or Spark tasks."""


def unreported(what: str, done: int, total: int | None) -> None:
    """For callers that show no progress."""
