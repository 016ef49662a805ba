"""Events are described in words."""

from controller.core.events import ChannelFault
from replay.description.events import event_in_words


def test_channel_fault_is_described() -> None:
    lost = ChannelFault(2, 7, "unreachable", "connection refused")
    assert event_in_words(lost) == "the channel to broker 2: unreachable, connection refused"
    assert (
        event_in_words(ChannelFault(2, 7, "recovered", "")) == "the channel to broker 2: recovered"
    )
