"""Progress of long work: the one way in which everything in replay reports it."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and how much there is in all (None where
that is not known). The unit is that of the work: records, bytes or Spark's tasks."""


def unreported(what: str, done: int, total: int | None) -> None:
    """For callers that show no progress."""
