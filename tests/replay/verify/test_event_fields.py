"""Replay checks the fields of events that the log stores next to their payloads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.commands import CommandId
from controller.core.events import (
    ChannelFault,
    Event,
    NumbersDrawn,
    Recorded,
    ShutdownRequested,
    WatchFired,
    ZnodesRead,
)
from controller.event_log.records import command_record, event_record
from controller.kafka_0_8.events import BrokerEvent, ProduceReceived, RecordedBrokerEvent
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from eventstore.writer import LogWriter
from replay.cli.main import app
from replay.logs.decode import UPCASTERS
from replay.verify.event_fields import NOTES_MAX, EventFieldChecker, WrongField
from replay.verify.verification import NO_ORDINAL, Verification, verify_decisions
from tests.replay.recorded_log import header, incident

Change = Callable[[EventRecord], dict[str, Any]]


def verified(folder: Path, seq: int, change: Change) -> Verification:
    """The replay of the incident with other fields in one event, and a checksum chain that fits."""
    simulation = incident()
    with LogWriter.create(folder, header()) as writer:
        for recorded, issued in simulation.history:
            event = event_record(recorded)
            if event.seq == seq:
                event = event._replace(**change(event))
            writer.append([event], [command_record(one) for one in issued])
    with LogReader.open(folder, UPCASTERS) as reader:
        return verify_decisions(reader)


def place(kind: str) -> int:
    """The number of the last event of a kind."""
    return max(
        recorded.seq for recorded, _ in incident().history if event_record(recorded).kind == kind
    )


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("znodes_read", lambda _: {"term": 7}, "term"),
        ("znodes_read", lambda one: {"term": one.term - 1}, "term"),
        ("znodes_read", lambda one: {"cause": one.cause - 1}, "cause"),
        ("znodes_read", lambda _: {"cause": None}, "cause"),
        ("znodes_read", lambda _: {"origin": "exogenous"}, "origin"),
        ("znodes_read", lambda _: {"kind": "znodes_written"}, "kind"),
        ("znodes_read", lambda _: {"channel": "broker:1"}, "channel"),
        ("znodes_read", lambda _: {"channel": "zookeeper:1f"}, "channel"),
        ("broker_answered", lambda _: {"channel": "broker:9"}, "channel"),
        ("topic_ids_drawn", lambda _: {"channel": "operator"}, "channel"),
        ("watch_fired", lambda one: {"mono_ns": one.mono_ns - 10**9}, "monotonic clock"),
    ],
)
def test_wrong_field_is_reported_with_its_event(
    tmp_path: Path, kind: str, change: Change, field: str
) -> None:
    seq = place(kind)
    result = verified(tmp_path / "log", seq, change)
    [mismatch] = result.mismatches
    assert result.mismatched == 1
    assert (mismatch.event, mismatch.ordinal, mismatch.differs) == (seq, NO_ORDINAL, [field])
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "log")])
    assert done.exit_code == 1
    assert f"event {seq} ({mismatch.event_kind}): changed ({field})" in done.output


def test_connection_with_requests_of_several_brokers_is_noted() -> None:
    """A broker opens its own connections, but a tool's request may name any broker."""
    fields = EventFieldChecker(1, 0)
    of_tool = ElectLeadersReceived(1, 2, "preferred", None)
    of_brokers = [AlterPartitionReceived(2, 3, broker, 7, []) for broker in (1, 2)]
    assert wrong_fields(fields, 1, 0, of_tool, "api:1") == []
    assert wrong_fields(fields, 2, 0, of_brokers[0], "api:1") == []
    assert wrong_fields(fields, 3, 0, of_brokers[1], "api:2") == []
    assert wrong_fields(fields, 4, 0, of_tool, "api:2") == []
    assert fields.notes == []
    assert wrong_fields(fields, 5, 0, of_brokers[0], "api:2") == []
    [note] = fields.notes
    assert "event 5 is a request of broker 1 on the connection api:2" in note


def test_notes_are_limited() -> None:
    fields = EventFieldChecker(1, 0)
    for seq in range(1, NOTES_MAX + 10):
        request = AlterPartitionReceived(2, 3, seq, 7, [])
        assert wrong_fields(fields, seq, 0, request, "api:1") == []
    assert len(fields.notes) == NOTES_MAX
    assert "event 2 is a request of broker 2" in fields.notes[0]


def test_wall_clock_that_goes_back_is_noted(tmp_path: Path) -> None:
    """An operator may set the clock while the daemon runs."""
    result = verified(tmp_path / "log", 30, lambda one: {"wall_ns": one.wall_ns - 2_500_000_000})
    assert result.mismatches == []
    [note] = result.notes
    assert "goes back by 2.499 s at event 30" in note


def test_clocks_may_begin_at_zero() -> None:
    fields = EventFieldChecker(1, 0)
    first = Recorded(1, 0, 0, 0, "operator", ShutdownRequested(""))
    assert fields.check(event_record(first), first) == []
    assert fields.notes == []


def wrong_fields(
    fields: EventFieldChecker, seq: int, term: int, event: Event, channel: str
) -> list[str]:
    recorded = Recorded(seq, seq, seq, term, channel, event)
    wrong = fields.check(event_record(recorded), recorded)
    fields.note_fold(seq, 5, 1)
    return [one.name for one in wrong]


UNANSWERED = ZnodesRead(CommandId(1, 0), 0, [-4], [None], [-1], [-1], [-1], [-1])
"""The outcome of a read while there is no session."""


@pytest.mark.parametrize(
    ("first_seq", "event", "channel", "wrong"),
    [
        pytest.param(1, ChannelFault(1, 7, "closed", ""), "broker:1:7", [], id="a broker's run"),
        pytest.param(1, ChannelFault(1, 7, "closed", ""), "broker:1", [], id="a simulated broker"),
        pytest.param(1, UNANSWERED, "zookeeper:0", [], id="no session"),
        pytest.param(1, ProduceReceived(1, "t", 0, 1, -1), "client:host:9", [], id="a client"),
        pytest.param(1, ElectLeadersReceived(1, 2, "preferred", None), "operator", ["channel"]),
        pytest.param(5, WatchFired("/controller", "data", 7), "zookeeper:1f", [], id="earlier"),
        pytest.param(5, WatchFired("/controller", "data", 7), "broker:1", ["channel"]),
    ],
)
def test_channel_fits_the_event(
    first_seq: int, event: Event | BrokerEvent, channel: str, wrong: list[str]
) -> None:
    fields = EventFieldChecker(first_seq, 0)
    fields.note_fold(first_seq, 0, 1)
    clocks = (first_seq + 1, first_seq + 1)
    recorded: Recorded | RecordedBrokerEvent
    if isinstance(event, ProduceReceived):
        recorded = RecordedBrokerEvent(first_seq + 1, *clocks, 0, channel, event)
    else:
        recorded = Recorded(first_seq + 1, *clocks, 0, channel, event)
    assert [one.name for one in fields.check(event_record(recorded), recorded)] == wrong


@pytest.mark.parametrize(("term", "wrong"), [(0, []), (5, []), (4, [WrongField("term", "4", "5")])])
def test_events_of_one_batch_have_the_term_before_the_batch(
    term: int, wrong: list[WrongField]
) -> None:
    """The daemon takes several events at once: the term may change while it folds the first."""
    fields = EventFieldChecker(1, 0)
    assert wrong_fields(fields, 1, 0, ShutdownRequested(""), "operator") == []
    second = Recorded(2, 2, 2, term, "operator", ShutdownRequested(""))
    assert fields.check(event_record(second), second) == wrong


def test_event_that_answers_a_command_is_in_a_later_batch() -> None:
    fields = EventFieldChecker(1, 0)
    assert wrong_fields(fields, 1, 0, ShutdownRequested(""), "operator") == []
    drawn = NumbersDrawn(CommandId(1, 0), [])
    assert wrong_fields(fields, 2, 0, drawn, "draw") == ["term"]
    assert wrong_fields(fields, 3, 5, NumbersDrawn(CommandId(1, 1), []), "draw") == ["command"]
    assert wrong_fields(fields, 4, 5, NumbersDrawn(CommandId(4, 0), []), "draw") == ["command"]


def test_late_answer_changes_nothing_about_the_last_answered_event() -> None:
    fields = EventFieldChecker(1, 0)
    for seq in (1, 2):
        assert wrong_fields(fields, seq, 0, ShutdownRequested(""), "operator") == []
    for seq, cause in ((3, 2), (4, 1)):
        drawn = NumbersDrawn(CommandId(cause, 0), [])
        assert wrong_fields(fields, seq, 5, drawn, "draw") == []
    assert fields.answered == 2
