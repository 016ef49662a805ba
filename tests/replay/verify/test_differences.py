"""The values in which a stored command differs from the current decision."""

import pytest
from msgspec import structs

from controller.core.commands import (
    CancelTimer,
    Command,
    CommandId,
    Issued,
    Reason,
    StopReplicaPartition,
    StopReplicaRequest,
)
from controller.event_log.records import command_record
from eventstore.records import CommandRecord
from replay.verify.differences import CommandDifference, differences


def stored(command: Command, rule: str = "a rule", *, body: bool = True) -> CommandRecord:
    issued = Issued(CommandId(1, 0), 1, command, Reason(rule))
    record = command_record(issued)
    return record if body else record._replace(body=None)


def stop(*partitions: StopReplicaPartition) -> StopReplicaRequest:
    return StopReplicaRequest(1, 10, 3, 1000, 7, partitions)


T0 = StopReplicaPartition("t", 0, 4, False)
T1 = StopReplicaPartition("t", 1, 4, False)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (stop(T0, structs.replace(T1, delete=True)), ("partitions[t-1].delete", "false", "true")),
        (stop(T1, T0), ("partitions, the order", "t-0, t-1", "t-1, t-0")),
        (structs.replace(stop(T0, T1), broker=2), ("broker", "1", "2")),
        (stop(T0), ("partitions[t-1]", '["t",1,4,false]', None)),
        (stop(T0, T1, T1), ("partitions[t-1 #2]", None, '["t",1,4,false]')),
        (
            CancelTimer("x"),
            (
                "the command",
                '["stop_replica",1,10,3,1000,7,[["t",0,4,false],["t",1,4,false]]]',
                '["cancel_timer","x"]',
            ),
        ),
    ],
)
def test_differing_parts_of_a_command_are_reported(
    now: Command, expected: tuple[str, str | None, str | None]
) -> None:
    issued = Issued(CommandId(1, 0), 1, now, Reason("a rule"))
    assert differences(stored(stop(T0, T1)), issued) == [CommandDifference(*expected)]


def test_reason_is_compared_if_the_body_is_not_stored() -> None:
    issued = Issued(CommandId(1, 0), 1, stop(T0), Reason("another rule"))
    assert differences(stored(stop(T1), body=False), issued) == [
        CommandDifference("reason.rule", "a rule", "another rule")
    ]


def test_unreadable_body_is_reported() -> None:
    broken = stored(stop(T0))._replace(body=b"no command")
    [difference] = differences(broken, Issued(CommandId(1, 0), 1, stop(T0), Reason("a rule")))
    assert "cannot be read" in (difference.recorded or "")
