"""Events are described in words."""

from msgspec import structs

from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.events import ChannelFault
from replay.description.events import event_in_words


def test_channel_fault_is_described() -> None:
    lost = ChannelFault(2, 7, "unreachable", "connection refused")
    assert event_in_words(lost) == "the channel to broker 2: unreachable, connection refused"
    assert (
        event_in_words(ChannelFault(2, 7, "recovered", "")) == "the channel to broker 2: recovered"
    )


def test_request_names_its_client_if_the_log_has_one() -> None:
    request = AllocateProducerIdsReceived(7, 0, 1, 10)
    assert event_in_words(request) == "AllocateProducerIds, request 7 of broker 1"
    sent = structs.replace(request, client=ClientIdentity("User:broker", "10.0.0.1"))
    assert event_in_words(sent) == (
        "AllocateProducerIds, request 7 of broker 1 by User:broker at 10.0.0.1"
    )
