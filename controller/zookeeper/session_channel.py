"""The channel of a session's events in the log."""

from typing import NamedTuple

from controller.core.events import Event


def session_channel(session_id: int) -> str:
    """The channel of the events of a session."""
    return f"zookeeper:{session_id:x}"


class ChannelEvent(NamedTuple):
    """An event for the log, and the channel that its order refers to."""

    channel: str
    event: Event
