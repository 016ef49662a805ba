"""A log that contains one case of each problem that the analysis looks for."""

from typing import Final, NamedTuple

from controller.core import commands, events
from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.commands import CommandId, Issued, Reason
from controller.core.events import Recorded
from controller.core.operations import SetData
from controller.core.values import Endpoint
from controller.event_log.records import command_record, event_record
from tools.fleet.histories import GeneratedHistory

STATE: Final = "/brokers/topics/t/partitions/0/state"
TOPIC: Final = "/brokers/topics/t"
_BEGUN_MS: Final = 1_780_000_000_000
_ZOOKEEPER: Final = "zookeeper:1"
_ASSIGNED: Final = b'{"version":3,"partitions":{"0":[1,2]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
_MOVING: Final = (
    b'{"version":3,"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[3]},'
    b'"removing_replicas":{"0":[2]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
)
_LED: Final = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":0,"isr":[1,2]}'


class Step(NamedTuple):
    """An event at a second, and the commands that it causes, each with its rule."""

    second: float
    channel: str
    event: events.Event
    caused: list[tuple[str, commands.Command]]


def history_with_problems() -> GeneratedHistory:
    """A broker departs half a second after an ISR with it was proposed, and the ISR is accepted; a
    reassignment never ends; a write and a request come from a deposed controller."""
    recorded, issued = [], []
    for seq, step in enumerate([*_take_over(), *_troubles()], 1):
        wall = _BEGUN_MS * 1_000_000 + int(step.second * 1e9)
        term = 0 if seq == 1 else 1
        recorded.append(event_record(Recorded(seq, wall, wall, term, step.channel, step.event)))
        for ordinal, (rule, command) in enumerate(step.caused):
            one = Issued(CommandId(seq, ordinal), 1, command, Reason(rule))
            issued.append(command_record(one))
    return GeneratedHistory(_BEGUN_MS, recorded, issued)


def _take_over() -> list[Step]:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9092)
    done = "2 brokers, 1 topics, 1 partitions"
    candidate: list[tuple[str, commands.Command]] = [
        ("controller election", commands.ReadStats(("/controller",), True))
    ]
    elected: list[tuple[str, commands.Command]] = [
        ("elected", commands.Notice("info", "elected", "/controller", "")),
        ("failover", commands.OpenChannel(1, 1, endpoint)),
        ("failover", commands.OpenChannel(2, 2, endpoint)),
        ("failover", commands.ReadZnodes((TOPIC, STATE))),
    ]
    ended: list[tuple[str, commands.Command]] = [
        ("failover_done", commands.Notice("info", "failover_done", "/controller", done))
    ]
    return [
        Step(0, _ZOOKEEPER, events.SessionConnected(1, 6000, "zk", False), candidate),
        Step(1, _ZOOKEEPER, _read(1, 0, []), elected),
        Step(2, _ZOOKEEPER, _read(2, 3, [_ASSIGNED, _LED]), ended),
    ]


def _troubles() -> list[Step]:
    move = ReassignmentTarget("t", 0, (1, 3))
    moves = AlterPartitionReassignmentsReceived(1, 0, [move])
    store = commands.WriteZnodes((SetData(TOPIC, _MOVING, -1),), 1)
    proposed = ProposedState("t", 0, 0, (1, 2), 0, 0)
    proposal = AlterPartitionReceived(2, 3, 1, 1, [proposed])
    gone: list[tuple[str, commands.Command]] = [
        ("broker change", commands.CloseChannel(2, 2)),
        ("AlterPartition", _state([1, 2])),
    ]
    return [
        Step(10, "api:1", moves, [("reassignment: store the assignment", store)]),
        Step(11, _ZOOKEEPER, _written(4, 0), []),
        Step(20, "api:2", proposal, []),
        Step(20.5, _ZOOKEEPER, events.WatchFired("/brokers/ids", "children", 9), gone),
        Step(21, _ZOOKEEPER, _written(7, 1), [("AlterPartition", _state([1]))]),
        Step(22, _ZOOKEEPER, _written(8, 0), [("AlterPartition", _state([1, 2]))]),
        Step(23, _ZOOKEEPER, _written(9, 0, error=-1000), []),
        Step(24, "broker:1:1", events.BrokerResponded(CommandId(9, 0), 1, 1, 11, []), []),
        Step(1000, "timer", events.TimerFired("one"), []),
    ]


def _state(isr: list[int]) -> commands.WriteZnodes:
    data = f'{{"version":1,"leader":1,"leader_epoch":1,"controller_epoch":1,"isr":{isr}}}'
    return commands.WriteZnodes((SetData(STATE, data.encode(), 0),), 1)


def _written(cause: int, ordinal: int, error: int = 0) -> events.ZnodesWritten:
    return events.ZnodesWritten(CommandId(cause, ordinal), 0, [error], [1])


def _read(cause: int, ordinal: int, found: list[bytes | None]) -> events.ZnodesRead:
    columns = [[1] * len(found) for _ in range(4)]
    return events.ZnodesRead(CommandId(cause, ordinal), 0, [0] * len(found), found, *columns)
