"""An event of a recorded log in a few words.

`name_of` gives the name of the topic that a request names by its id, in hex.
"""

from controller.core import events
from controller.core.topic_requests import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    UpdateFeaturesReceived,
)
from replay.description.phrases import listed
from replay.subjects import NameOf

_SHOWN = 5


def _as_it_is(topic: str) -> str:
    return topic


def event_in_words(event: events.Event, name_of: NameOf = _as_it_is) -> str:
    """What was observed, in one line, without what belongs to the record."""
    match event:
        case events.SessionConnected(server=server, renewed=renewed):
            return f"the ZooKeeper session {'goes on' if renewed else 'begins'} (server {server})"
        case events.SessionDisconnected(cause=cause):
            return f"the connection to ZooKeeper is lost: {cause}"
        case events.SessionExpired():
            return "the ZooKeeper session is over"
        case events.WatchFired(path=path, change=change):
            what = "the children changed" if change == "children" else f"{change}"
            return f"watch of {path}: {what}"
        case events.ZnodesRead() | events.ChildrenRead() | events.ZnodesWritten():
            return _outcome(event)
        case events.BrokerAnswered(broker=broker, error=error, partition_errors=errors):
            told = f", error {error}" if error else ""
            of_partitions = f", {len(errors)} partitions with errors" if errors else ""
            return f"broker {broker} answered{told}{of_partitions}"
        case events.ChannelFault(broker=broker, kind=kind, text=text):
            return f"the channel to broker {broker}: {kind}" + (f", {text}" if text else "")
        case events.VersionsOffered(broker=broker):
            return f"broker {broker} told what versions it offers"
        case events.TimerFired(timer=timer):
            return f"the timer ran out: {timer}"
        case events.TopicIdsDrawn(topic_ids=ids):
            return f"{len(ids)} topic ids were drawn"
        case events.NumbersDrawn(numbers=numbers):
            return f"{len(numbers)} numbers were drawn"
        case events.ShutdownRequested(reason=reason):
            return f"the daemon is told to end: {reason}"
        case _:
            return request_in_words(event, name_of)


def _outcome(event: events.ZnodesRead | events.ChildrenRead | events.ZnodesWritten) -> str:
    of = f"of command {event.command.cause}.{event.command.ordinal}"
    match event:
        case events.ChildrenRead(children=children, error=error):
            told = f", ZooKeeper code {error}" if error else ""
            return f"{len(children)} children read, outcome {of}{told}"
        case events.ZnodesRead(errors=errors):
            failed = sum(1 for one in errors if one)
            return f"{len(errors) - failed} znodes read, {failed} errors, outcome {of}"
        case events.ZnodesWritten(errors=errors):
            failed = sum(1 for one in errors if one)
            return f"{len(errors) - failed} writes done, {failed} refused, outcome {of}"


def request_in_words(request: events.ApiRequest, name_of: NameOf = _as_it_is) -> str:
    """A request of the endpoint."""
    name = type(request).__name__.removesuffix("Received")
    head = f"{name}, request {request.request}"
    match request:
        case events.AlterPartitionReceived(broker=broker, partitions=partitions, version=version):
            named = name_of if version > 1 else _as_it_is
            asked = (
                f"{named(one.topic)}-{one.partition} ISR {listed(one.isr)}"
                for one in partitions[:_SHOWN]
            )
            return f"{head} of broker {broker}: {'; '.join(asked)}{_more(len(partitions))}"
        case (
            events.ControlledShutdownReceived(broker=broker)
            | events.AllocateProducerIdsReceived(broker=broker)
        ):
            return f"{head} of broker {broker}"
        case events.AlterPartitionReassignmentsReceived(partitions=targets):
            asked = (
                f"{one.topic}-{one.partition} "
                f"{'cancel' if one.replicas is None else 'to ' + listed(one.replicas)}"
                for one in targets[:_SHOWN]
            )
            return f"{head}: {'; '.join(asked)}{_more(len(targets))}"
        case events.ElectLeadersReceived(election=election, partitions=wanted):
            return f"{head}: {election}, {'all' if wanted is None else len(wanted)} partitions"
        case events.ListPartitionReassignmentsReceived():
            return head
        case (
            CreateTopicsReceived(topics=topics)
            | CreatePartitionsReceived(topics=topics)
            | DeleteTopicsReceived(topics=topics)
        ):
            names = [
                str(getattr(one, "name", None) or getattr(one, "topic", "by id")) for one in topics
            ]
            return f"{head}: {', '.join(names[:_SHOWN])}{_more(len(names))}"
        case UpdateFeaturesReceived(updates=updates):
            return f"{head}: {', '.join(one.feature for one in updates[:_SHOWN])}"
    return head


def _more(count: int) -> str:
    return f" and {count - _SHOWN} more" if count > _SHOWN else ""
