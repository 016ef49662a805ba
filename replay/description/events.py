"""An event of a recorded log in words: a line that says what was observed, then its parts.

`name_of` returns the name of the topic that a request names by its id, in hex.
"""

import re
from typing import Final, assert_never

from controller.core import events
from controller.core.api_requests import ApiRequest
from controller.core.releases import release_of
from controller.core.values import counted
from controller.core.znodes import write_topic_id
from replay.description.api_requests import request_lines
from replay.description.error_names import error_name
from replay.description.phrases import in_one_line
from replay.names import command_name
from replay.subjects import NameOf, unchanged_name

_ID: Final = re.compile(r"[0-9a-f]{32}")
"""Answers to later versions of LeaderAndIsr name topics by their ids."""
_PROBED: Final = {
    events.ANSWERS: "answers",
    events.REFUSES: "refuses the connection",
    events.SILENT: "does not answer",
}

PlainEvent = (
    events.BrokerResponded
    | events.ChannelFault
    | events.VersionsOffered
    | events.BrokerProbed
    | events.TimerFired
    | events.TopicIdsDrawn
    | events.NumbersDrawn
    | events.ShutdownRequested
)
"""All events except those of the ZooKeeper session, those about znodes, and API requests."""


def event_in_words(event: events.Event, name_of: NameOf = unchanged_name) -> str:
    """An event in one line, without the fields of the record."""
    match event:
        case events.SessionConnected(server=server, renewed=renewed):
            return f"the ZooKeeper session {'continues' if renewed else 'begins'} (server {server})"
        case events.SessionDisconnected(cause=cause):
            return f"the connection to ZooKeeper is lost: {cause}"
        case events.SessionExpired():
            return "the ZooKeeper session is over"
        case events.WatchFired(path=path, change=change):
            what = "the children changed" if change == "children" else f"{change}"
            return f"watch of {path}: {what}"
        case events.ZnodesRead() | events.ChildrenRead() | events.ZnodesWritten():
            return _outcome(event)
        case _ if isinstance(event, ApiRequest):
            return request_in_words(event, name_of)
        case _:
            return in_one_line(plain_event_lines(event, name_of))


def request_in_words(request: ApiRequest, name_of: NameOf = unchanged_name) -> str:
    """A request to the endpoint, in one line."""
    return in_one_line(request_lines(request, name_of))


def _outcome(event: events.ZnodesRead | events.ChildrenRead | events.ZnodesWritten) -> str:
    of = f"of command {command_name(event.command)}"
    match event:
        case events.ChildrenRead(children=children, error=error):
            failure = f", ZooKeeper code {error}" if error else ""
            return f"{len(children)} children read (outcome {of}){failure}"
        case events.ZnodesRead(errors=errors):
            failed = sum(1 for one in errors if one)
            failures = f", {counted(failed, 'error')}" if failed else ""
            return f"{counted(len(errors) - failed, 'znode')} read{failures} (outcome {of})"
        case events.ZnodesWritten(errors=errors):
            failed = sum(1 for one in errors if one)
            failures = f", {failed} refused" if failed else ""
            return f"{counted(len(errors) - failed, 'write')} done{failures} (outcome {of})"


def probe_in_words(broker: int, result: str, text: str) -> str:
    """The result of a probe of a broker's address."""
    found = _PROBED.get(result, result)
    return f"the address of broker {broker} {found}" + (f": {text}" if text else "")


def plain_event_lines(event: PlainEvent, name_of: NameOf = unchanged_name) -> list[str]:
    """An event of brokers, timers, draws or the operator, then a line for each part."""
    match event:
        case events.BrokerResponded(broker=broker, error=error, partition_errors=errors):
            head = f"broker {broker} answered{f', {error_name(error)}' if error else ''}"
            named = [name_of(topic) if _ID.fullmatch(topic) else topic for topic, _, _ in errors]
            of_partitions = (
                f"{topic}-{number} {error_name(code)}"
                for topic, (_, number, code) in zip(named, errors, strict=True)
            )
            return [head, *of_partitions]
        case events.ChannelFault(broker=broker, kind=kind, text=text):
            return [f"the channel to broker {broker}: {kind}" + (f", {text}" if text else "")]
        case events.VersionsOffered(broker=broker, highest=highest):
            release = ".".join(map(str, release_of(highest)))
            return [f"broker {broker} offers the API versions of Kafka {release}"]
        case events.BrokerProbed(broker=broker, result=result, text=text):
            return [probe_in_words(broker, result, text)]
        case events.TimerFired(timer=timer):
            return [f"timer {timer} fired"]
        case events.TopicIdsDrawn(topic_ids=ids):
            return ["topic ids drawn", *map(write_topic_id, ids)]
        case events.NumbersDrawn(numbers=numbers):
            return ["numbers drawn", *map(str, numbers)]
        case events.ShutdownRequested(reason=reason):
            return [f"shutdown requested: {reason}"]
        case _:
            assert_never(event)
