"""The races of one log, found in plain Python as docs/fleet-tables.md defines them."""

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from controller.core import events
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.operations import FENCED
from replay.stock_clusters.imported_log import events as imported_events
from tests.replay.fleet.plain_count import PlainCount, Write
from tests.replay.fleet.plain_moves import Partition

_TOPICS = re.compile(r".*/(brokers/topics|config/topics|admin/delete_topics)/([^/]+)(/.*)?")
_PARTITION = re.compile(r"/partitions/(\d+)(/state)?")
_STATE = re.compile(r".*/brokers/topics/([^/]+)/partitions/(\d+)/state")
_SHUTS_DOWN = re.compile(r"Shutting down broker (\d+)")

Subject = Partition | int
"""A partition or a broker."""


class SubjectEvent(NamedTuple):
    """An event about a subject. `proposed` is the ISR that a request proposes; `until_seq` is the
    event at which a broker registers or departs again."""

    seq: int
    micros: int
    channel: str
    what: str
    subject: Subject
    request: int | None = None
    proposed: tuple[int, ...] = ()
    until_seq: int | None = None

    @property
    def is_weak(self) -> bool:
        """Whether the event forms pairs with other kinds of events only."""
        is_of_broker = isinstance(self.subject, int)
        return self.what == "partition_error" or (is_of_broker and self.what == "isr_proposed")


class Decision(NamedTuple):
    """The state of a partition that a controller wrote or tried to write."""

    seq: int
    partition: Partition
    leader: int
    isr: list[int]
    rule: str
    assigned: list[int]
    involved: set[int]
    is_refused: bool


class Race(NamedTuple):
    """Two events about one subject, and whether the following decision considered the second
    one."""

    subject: Subject
    first_seq: int
    first_what: str
    seq: int
    what: str
    verdict: str


def races_of(count: PlainCount, window_s: float) -> set[Race]:
    """All races of a log."""
    of_subject: dict[Subject, dict[int, SubjectEvent]] = defaultdict(dict)
    for one in [*_of_partitions(count), *_of_brokers(count)]:
        known = of_subject[one.subject].get(one.seq)
        if known is None or one.what < known.what:
            of_subject[one.subject][one.seq] = one
    decisions = sorted(_decisions(count), key=lambda one: (one.seq, one.partition))
    answered = _answered(count)
    found = set()
    for touches in of_subject.values():
        before: list[SubjectEvent] = []
        for _, later in sorted(touches.items()):
            earlier = [one for one in before if not (later.is_weak and one.is_weak)]
            before.append(later)
            if not earlier or earlier[-1].channel == later.channel:
                continue
            first = earlier[-1]
            if later.micros - first.micros <= window_s * 1e6:
                verdict = _verdict(later, decisions, answered)
                found.add(
                    Race(later.subject, first.seq, first.what, later.seq, later.what, verdict)
                )
    return found


def _of_partitions(count: PlainCount) -> Iterator[SubjectEvent]:
    ids = {_hex(one): topic for one, topic in count.topic_ids.items()}
    own = [one for one in count.writes if one.decided_seq is not None and not one.error]
    for record, event in count.records:
        place = record.seq, record.wall_ns // 1000, record.channel
        for what, topic, number, proposed in _proposals(event):
            subject = ids.get(topic, topic), number
            request = getattr(event, "request", None)
            yield SubjectEvent(*place, what, subject, request, tuple(proposed))
        if isinstance(event, events.WatchFired) and not any(
            one.path == event.path and one.decided_seq <= record.seq <= one.seq
            for one in own
            if one.decided_seq is not None and one.decided_seq < one.seq
        ):
            yield from _of_znode(count, place, event.path)
    for one in count.writes:
        if one.decided_seq is None and "/config/" not in one.path:
            rest = _TOPICS.fullmatch(one.path)
            if rest is not None and (not rest[3] or rest[3].endswith("/state")):
                yield from _of_znode(count, one[:3], one.path)


def _proposals(event: Any) -> Iterator[tuple[str, str, int, Any]]:
    match event:
        case AlterPartitionReceived():
            for one in event.partitions:
                yield "isr_proposed", one.topic, one.partition, one.isr
        case events.BrokerResponded():
            for topic, partition, _ in event.partition_errors:
                yield "partition_error", topic, partition, ()
        case ElectLeadersReceived():
            for topic, partition in event.partitions or ():
                yield "election_requested", topic, partition, ()
        case AlterPartitionReassignmentsReceived():
            for target in event.partitions:
                yield "reassignment_requested", target.topic, target.partition, ()


def _of_znode(count: PlainCount, place: tuple[int, int, str], path: str) -> Iterator[SubjectEvent]:
    """An event about a topic counts for each of its partitions."""
    found = _TOPICS.fullmatch(path)
    if found is None:
        return
    what = "topic_changed"
    if found[1] == "admin/delete_topics":
        what = "topic_deletion_requested"
    elif path.endswith("/state"):
        what = "state_written"
    number = _PARTITION.fullmatch(found[3] or "")
    for partition in count.partitions:
        if partition[0] == found[2] and (number is None or partition[1] == int(number[1])):
            yield SubjectEvent(*place, what, partition)


def _of_brokers(count: PlainCount) -> Iterator[SubjectEvent]:
    for number, one in enumerate(count.brokers.changes):
        following = [
            each.seq for each in count.brokers.changes[number + 1 :] if each.broker == one.broker
        ]
        until = min(following, default=None)
        if not one.is_found:
            what = f"broker_{one.what}"
            yield SubjectEvent(one.seq, one.micros, one.channel, what, one.broker, until_seq=until)
    for record, event in count.records:
        place = record.seq, record.wall_ns // 1000, record.channel
        match event:
            case ControlledShutdownReceived():
                yield SubjectEvent(*place, "shutdown_requested", event.broker)
            case imported_events.ControllerLogged() if (
                found := _SHUTS_DOWN.search(event.text)
            ) is not None:
                yield SubjectEvent(*place, "shutdown_requested", int(found[1]))
            case events.ChannelFault() if event.kind != "recovered":
                yield SubjectEvent(*place, "channel_fault", event.broker)
            case AlterPartitionReceived():
                for proposed in event.partitions:
                    for broker in proposed.isr:
                        wanted = event.request, tuple(proposed.isr)
                        yield SubjectEvent(*place, "isr_proposed", broker, *wanted)


def _decisions(count: PlainCount) -> Iterator[Decision]:
    last = {(row.partition, row.write.seq): row for row in count.rows}
    for row in last.values():
        decided = row.write.decided_seq
        if decided is None or row.leader is None:
            continue
        leader, isr = row.before
        assigned = row.assigned[0] if row.assigned is not None else []
        yield Decision(
            decided,
            row.partition,
            row.leader,
            row.isr,
            row.write.rule,
            assigned,
            {*row.isr, *isr, row.leader, -1 if leader is None else leader} - {-1},
            False,
        )
    for one in count.writes:
        if one.error not in (0, FENCED) and _STATE.fullmatch(one.path) and one.data:
            yield _refused(one)


def _refused(one: Write) -> Decision:
    found = _STATE.fullmatch(one.path)
    assert found is not None
    assert one.decided_seq is not None
    actual = json.loads(one.data)
    involved = {*actual["isr"], actual["leader"]} - {-1}
    partition = found[1], int(found[2])
    place = one.decided_seq, partition
    return Decision(*place, actual["leader"], actual["isr"], one.rule, [], involved, True)


def _answered(count: PlainCount) -> dict[int, int]:
    found: dict[int, int] = {}
    for (seq, _), one in sorted(count.issued.items()):
        if one.kind.startswith("answer_") and one.target.startswith("request "):
            found.setdefault(int(one.target.removeprefix("request ")), seq)
    return found


def _verdict(later: SubjectEvent, decisions: list[Decision], answered: dict[int, int]) -> str:
    decision = _decision_after(later, decisions)
    at = answered.get(later.request) if later.request is not None else None
    if later.request is not None:
        if decision is None:
            return "undecided" if at is None else "considered"
        return "considered" if _is_known(later, decision, at) else "missed"
    if decision is None:
        return "undecided"
    return "missed" if _misses(later, decision) else "considered"


def _decision_after(later: SubjectEvent, decisions: list[Decision]) -> Decision | None:
    for one in decisions:
        if one.seq < later.seq:
            continue
        if isinstance(later.subject, int):
            if later.until_seq is not None and one.seq > later.until_seq:
                return None
            if later.subject in one.involved:
                return one
        elif one.partition == later.subject:
            return one
    return None


def _is_known(later: SubjectEvent, decision: Decision, answered: int | None) -> bool:
    """Requests wait in the queue: an earlier decision did not know the request, unless it does what
    the request asks for."""
    rule = decision.rule
    return (
        (answered is not None and answered <= decision.seq)
        or sorted(decision.isr) == sorted(later.proposed) != []
        or (later.what == "isr_proposed" and rule == "AlterPartition")
        or (later.what == "reassignment_requested" and rule.startswith("reassignment"))
        or (later.what == "election_requested" and rule.endswith("replica election"))
    )


def _misses(later: SubjectEvent, decision: Decision) -> bool:
    if decision.is_refused:
        return True
    isr, leader, broker = decision.isr, decision.leader, later.subject
    match later.what:
        case "broker_gone":
            return leader == broker or (len(isr) > 1 and broker in isr)
        case "shutdown_requested":
            return leader == broker and len(isr) > 1
        case "broker_registered" | "broker_bounced":
            return leader == -1 and broker in isr
        case "topic_changed":
            return bool(set(isr) - set(decision.assigned))
    return False


def _hex(topic_id: str) -> str:
    return base64.urlsafe_b64decode(topic_id + "=" * (-len(topic_id) % 4)).hex()
