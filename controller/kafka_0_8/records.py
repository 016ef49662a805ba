"""Produce, commit and fetch: what a broker does with records, at once and without a procedure
(docs/design-0.8.md#the-procedures-in-short)."""

from typing import Final

from controller.core.commands import Reason
from controller.core.error_codes import (
    INELIGIBLE_REPLICA,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    STALE_BROKER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from controller.core.values import ANY_VERSION, NO_LEADER
from controller.kafka_0_8 import rules
from controller.kafka_0_8.broker import FETCH, Broker, timer_of
from controller.kafka_0_8.commands import (
    AppendRecords,
    RespondFetch,
    RespondProduce,
    SendFetch,
    SendFetchOfRun,
)
from controller.kafka_0_8.configuration import FIRST_RULES, SECOND_RULES, THIRD_RULES
from controller.kafka_0_8.events import (
    CONSUMER,
    FetchReceived,
    FetchResponded,
    ProduceReceived,
    RecordsAppended,
)
from controller.kafka_0_8.state import Name, Partition, PendingAppend, PendingProduce
from controller.kafka_0_8.triggers import Diverged, FollowAgain, IsrChange, StatePathChanged

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1


def produce(broker: Broker, event: ProduceReceived) -> None:
    """A produce request: append its records, or reject it (D-01)."""
    name = (event.topic, event.partition)
    partition = broker.partitions.get(name)
    if partition is None or not partition.is_leader:
        leader = partition.leader if partition else NO_LEADER
        if event.acks != ACKS_NONE:
            _reject(broker, event.request, leader, rules.LEADER_ONLY)
        return
    command = AppendRecords(event.topic, event.partition, broker.seq, event.count)
    id = broker.issue(command, Reason(rules.ACKS))
    broker.appends[id] = PendingAppend(name, partition.epoch, event.request, event.acks)


def process_appended(broker: Broker, event: RecordsAppended) -> None:
    """Records are in the local log: those of a producer, or fetched ones."""
    append = broker.appends.pop(event.command, None)
    partition = broker.partitions.get(append.name) if append else None
    if append is None:
        return
    if partition is None:
        _reject_append(broker, append)
        return
    partition.local.leo = event.leo
    if append.request:
        _answer_or_queue_produce(broker, partition, append)
    elif partition.append == event.command:
        partition.append = None
        _raise_follower_hw(partition)
        send_fetch(broker, partition)


def _reject_append(broker: Broker, append: PendingAppend) -> None:
    """Reject a producer's records whose replica was closed while they were appended: the producer
    has to ask the next leader (D-02, L-06)."""
    has_response = append.request and append.acks != ACKS_NONE
    if has_response and broker.configuration.rules != FIRST_RULES:
        _reject(broker, append.request, NO_LEADER, rules.REFUSE_QUEUED)


def _answer_or_queue_produce(broker: Broker, partition: Partition, append: PendingAppend) -> None:
    """Respond to a producer whose records are in the local log, at once or when they are committed
    (D-02); reject them if this broker is no longer the leader in that epoch (L-06)."""
    if not partition.is_leader or partition.epoch != append.epoch:
        if append.acks != ACKS_NONE:
            _reject(broker, append.request, partition.leader, rules.REFUSE_QUEUED)
        return
    if append.acks == ACKS_LEADER:
        _accept(broker, PendingProduce(append.request, partition.local.leo), rules.ACKS)
    elif append.acks != ACKS_NONE:
        partition.commit_queue.append(PendingProduce(append.request, partition.local.leo))
    commit(broker, partition)


def commit(broker: Broker, partition: Partition) -> None:
    """Raise the leader's high watermark, and respond to the requests that are committed (D-03)."""
    members = [*partition.isr, *partition.joining]
    hw = min(partition.ar[one].leo for one in members if one in partition.ar)
    partition.local.hw = max(partition.local.hw, hw)
    queue = partition.commit_queue
    while queue and queue[0].end <= partition.local.hw:
        _accept(broker, queue.popleft(), rules.COMMIT)


def refuse_queued(broker: Broker, partition: Partition) -> None:
    """Reject the requests in the commitQ, because this broker is no longer the leader (L-06)."""
    while partition.commit_queue:
        _reject(broker, partition.commit_queue.popleft().request, NO_LEADER, rules.REFUSE_QUEUED)


def _accept(broker: Broker, pending: PendingProduce, rule: str) -> None:
    broker.issue(RespondProduce(pending.request, NONE, pending.end, broker.id), Reason(rule))


def _reject(broker: Broker, request: int, leader: int, rule: str) -> None:
    response = RespondProduce(request, NOT_LEADER_OR_FOLLOWER, 0, leader)
    broker.issue(response, Reason(rule))


# Fetch, on the leader ---------------------------------------------------------------------------


def fetch(broker: Broker, event: FetchReceived) -> None:
    """A fetch request of a replica or a consumer."""
    partition = broker.partitions.get((event.topic, event.partition))
    if partition is None or not partition.is_leader:
        _respond(broker, event, None, NOT_LEADER_OR_FOLLOWER, rules.LEADER_ONLY)
    elif event.replica == CONSUMER:
        _consume(broker, event, partition)
    elif event.replica not in partition.ar or event.replica == broker.id:
        _respond(broker, event, partition, UNKNOWN_TOPIC_OR_PARTITION, rules.REPLICATE)
    elif event.epoch != partition.epoch:
        _respond(broker, event, partition, NOT_LEADER_OR_FOLLOWER, rules.LEADER_EPOCH)
    elif ANY_VERSION < event.replicas_version < partition.ar[event.replica].assigned_at:
        _respond(broker, event, partition, INELIGIBLE_REPLICA, rules.ADDED_REPLICA)
    elif ANY_VERSION < event.run == partition.ar[event.replica].stale_run:
        # Once: a broker that cannot note its start again still replicates.
        partition.ar[event.replica].stale_run = ANY_VERSION
        _respond(broker, event, partition, STALE_BROKER_EPOCH, rules.STALE_RUN)
    elif event.offset > partition.local.leo:
        _respond(broker, event, partition, OFFSET_OUT_OF_RANGE, rules.REPLICATE)
    else:
        _replicate(broker, event, partition)


def _consume(broker: Broker, event: FetchReceived, partition: Partition) -> None:
    """Between the high watermark and the log end offset, a consumer gets no records (D-04)."""
    if event.offset > partition.local.leo:
        _respond(broker, event, partition, OFFSET_OUT_OF_RANGE, rules.CONSUME)
        return
    end = max(event.offset, partition.local.hw)
    _respond(broker, event, partition, NONE, rules.CONSUME, end)


def _replicate(broker: Broker, event: FetchReceived, partition: Partition) -> None:
    replica = partition.ar[event.replica]
    replica.leo, replica.run = event.offset, event.run
    if replica.leo >= partition.local.leo:
        replica.caught_up_ms = broker.now_ms
    if has_caught_up(partition, event.replica):
        broker.enqueue(IsrChange(*partition.name))
    commit(broker, partition)
    _respond(broker, event, partition, NONE, rules.REPLICATE, partition.local.leo)


def has_caught_up(partition: Partition, replica: int) -> bool:
    """Whether a replica of the CUR can join the ISR: it has every committed record, also those that
    earlier leaders committed (I-02)."""
    needed = max(partition.local.hw, partition.start_leo)
    return replica in partition.cur and partition.ar[replica].leo >= needed


def _respond(
    broker: Broker,
    event: FetchReceived,
    partition: Partition | None,
    error: int,
    rule: str,
    end: int | None = None,
) -> None:
    hw, leo = (partition.local.hw, partition.local.leo) if partition else (0, 0)
    start = event.offset
    end = start if end is None else end
    response = RespondFetch(event.request, error, event.topic, event.partition, start, end, hw, leo)
    broker.issue(response, Reason(rule))


# Fetch, on a follower ---------------------------------------------------------------------------


def send_fetch(broker: Broker, partition: Partition) -> None:
    """Fetch from the leader, unless a fetch or its append is in flight."""
    if partition.is_leader or not partition.address or partition.fetch or partition.append:
        return
    topic, number = partition.name
    fields = (
        topic,
        number,
        partition.leader,
        partition.address,
        partition.local.leo,
        partition.epoch,
        partition.replicas_version,
    )
    names_run = broker.configuration.rules > SECOND_RULES
    command = SendFetchOfRun(*fields, broker.run) if names_run else SendFetch(*fields)
    partition.fetch = broker.issue(command, Reason(rules.FOLLOW))
    broker.fetches[partition.fetch] = partition.name


def process_fetched(broker: Broker, event: FetchResponded) -> None:
    """The leader's response. Responses to fetches of an earlier leadership are ignored."""
    name = broker.fetches.pop(event.command, None)
    partition = broker.partitions.get(name) if name else None
    if name is None or partition is None or partition.fetch != event.command:
        return
    partition.fetch = None
    if event.error == NONE and event.count:
        command = AppendRecords(*name, broker.seq, event.count)
        partition.leader_hw = event.hw
        partition.append = broker.issue(command, Reason(rules.FOLLOW))
        broker.appends[partition.append] = PendingAppend(name, partition.epoch, 0, ACKS_NONE)
        return
    if event.error == NONE:
        partition.leader_hw = event.hw
        _raise_follower_hw(partition)
    elif event.error == OFFSET_OUT_OF_RANGE:
        broker.enqueue(Diverged(*name, event.leo))
        return
    elif event.error == INELIGIBLE_REPLICA:
        broker.enqueue(FollowAgain(*name))
    elif event.error == STALE_BROKER_EPOCH and broker.configuration.rules > THIRD_RULES:
        broker.enqueue(StatePathChanged())
    _fetch_later(broker, name)


def _raise_follower_hw(partition: Partition) -> None:
    """The leader's high watermark, at most the log end offset (F-02)."""
    local = partition.local
    local.hw = max(local.hw, min(partition.leader_hw, local.leo))


def _fetch_later(broker: Broker, name: Name) -> None:
    retry_ms = broker.configuration.retry_ms
    broker.start_timer(timer_of(FETCH, name), retry_ms, rules.FETCH_LATER)
