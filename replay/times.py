"""Times in a readable format."""

from datetime import UTC, datetime


def iso_time(wall_ns: int) -> str:
    """A wall-clock time as ISO 8601 in UTC, to the microsecond."""
    moment = datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns % 1_000_000_000 // 1000:06d}Z"


def nanoseconds_of(time: str) -> int:
    """The wall-clock time in ns of a text that `iso_time` made."""
    moment = datetime.fromisoformat(time)
    return (
        int(moment.replace(microsecond=0).timestamp()) * 1_000_000_000 + moment.microsecond * 1000
    )


def seconds_of(ns: int) -> float:
    """A duration in seconds, to the microsecond."""
    return round(ns / 1e9, 6)
