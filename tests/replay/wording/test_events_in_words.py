"""Events in plain words."""

from controller.core.events import ChannelFault
from replay.wording.events_in_words import in_words


def test_what_a_channel_has_to_say() -> None:
    lost = ChannelFault(2, 7, "unreachable", "connection refused")
    assert in_words(lost) == "the channel to broker 2: unreachable, connection refused"
    assert in_words(ChannelFault(2, 7, "recovered", "")) == "the channel to broker 2: recovered"
