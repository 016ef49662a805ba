"""The stored form of events and commands."""

import msgspec

from controller.core.canonical import digest, encode_command
from controller.core.commands import (
    Command,
    CommandId,
    Issued,
    ReadChildren,
    ReadZnodes,
    Reason,
)
from controller.core.events import BrokerResponded, ChildrenRead, Event, Recorded, WatchFired
from controller.event_log.records import command_record, event_record
from eventstore.records import BODY_BYTES_MAX


def recorded(event: Event) -> Recorded:
    return Recorded(7, 1_000, 2_000, 5, "the channel", event)


def issued(command: Command) -> Issued:
    return Issued(CommandId(7, 2), 5, command, Reason("the rule"))


def test_exogenous_event_has_no_cause() -> None:
    record = event_record(recorded(WatchFired("/brokers/ids", "children", 9)))
    assert (record.seq, record.wall_ns, record.mono_ns, record.term) == (7, 1_000, 2_000, 5)
    assert (record.kind, record.channel) == ("watch_fired", "the channel")
    assert (record.origin, record.cause) == ("exogenous", None)
    assert b"/brokers/ids" in record.payload


def test_outcome_names_the_event_of_its_command() -> None:
    for event in (
        ChildrenRead(CommandId(3, 1), 0, ["a"]),
        BrokerResponded(CommandId(3, 0), 1, 2, 0, []),
    ):
        record = event_record(recorded(event))
        assert (record.origin, record.cause) == ("reply", 3)


def test_small_command_is_stored_completely() -> None:
    command = ReadChildren("/brokers/ids", True)
    record = command_record(issued(command))
    assert (record.cause, record.ordinal, record.term) == (7, 2, 5)
    assert (record.kind, record.target) == ("read_children", "/brokers/ids")
    assert record.body == encode_command(command)
    assert record.digest == digest(encode_command(command))
    assert b"the rule" in record.reason


def test_only_the_digest_of_a_large_command_is_stored() -> None:
    command = ReadZnodes(tuple(f"/brokers/topics/{number}" for number in range(1000)))
    record = command_record(issued(command))
    assert len(encode_command(command)) > BODY_BYTES_MAX
    assert record.body is None
    changed = msgspec.structs.replace(command, watch=True)
    assert record.digest != command_record(issued(changed)).digest
    assert record.target == "1000 znodes"
