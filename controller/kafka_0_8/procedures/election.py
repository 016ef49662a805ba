"""Whether a replica follows a leader or tries to become leader (E-01 to E-09)."""

from typing import Final, NamedTuple

from controller.core.commands import Reason
from controller.core.errors import ZnodeError
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    OK,
    RUNTIME_INCONSISTENCY,
    Create,
    SetData,
    WriteOperation,
)
from controller.core.outcomes import ZnodeColumns
from controller.core.zookeeper_io import fetch_stats, write_atomically
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import ELECTION, Broker, timer_of
from controller.kafka_0_8.configuration import FIRST_RULES, SECOND_RULES, THIRD_RULES
from controller.kafka_0_8.procedures.epochs import epoch_after_all
from controller.kafka_0_8.procedures.leadership import (
    become_follower,
    become_leader,
    step_down,
)
from controller.kafka_0_8.procedures.reading import read_znodes
from controller.kafka_0_8.state import NO_EPOCH, Partition
from controller.kafka_0_8.znodes import Isr, LeaderZnode

_RACED: Final = (
    OK,
    RUNTIME_INCONSISTENCY,
    CONNECTION_LOSS,
    NO_NODE,
    BAD_VERSION,
    NODE_EXISTS,
)
"""Codes after which the znodes are read again: there is another leader or epoch, or the reply was
lost."""
_NOT_ELIGIBLE: Final = "not_eligible"
_UNASSIGNED_ISR: Final = "unassigned_isr"
_MISSING_ISR: Final = "missing_isr"
_REFUSED: Final = "election_refused"
"""Codes of notices."""
_REPLICAS, _ISR, _LEADER, _EPOCH = range(4)


class _Candidacy(NamedTuple):
    """The state that a candidate writes, and the replicas that it read. `assigned_at`: as of
    `become_leader`; `epoch_version`: as in `Partition`."""

    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    isr_version: int
    operations: list[WriteOperation]
    assigned_at: int = 0
    epoch_version: int | None = None


async def watch_leader(broker: Broker, partition: Partition) -> None:
    """Have the next change of the leader znode reported, its creation included (S-06)."""
    path = znodes.leader_path(*partition.name)
    await fetch_stats(broker, [path], rules.WATCH_LEADER, watch=True)


async def elect_or_follow(broker: Broker, partition: Partition, *, has_waited: bool) -> None:
    """Follow the leader; without one, try to become leader, at once or after the wait (R-03). The
    replica of a partition that was deleted does neither (Q-04)."""
    while True:
        found = await _read_election_znodes(broker, partition)
        if found.errors[_REPLICAS] == NO_NODE:
            _leave(broker, partition, "the partition is deleted")
            return
        if NO_AUTH in found.errors:
            if found.errors[_LEADER] == NO_NODE:
                _leave(broker, partition, "its leader znode does not exist")
            _retry(broker, partition)
            return
        if found.czxids[_REPLICAS] != partition.czxid:
            # The request to start the replica of the new partition is in the queue.
            _leave(broker, partition, "the partition was deleted and created again")
            return
        if found.errors[_LEADER] == OK:
            await _follow(broker, partition, found)
            return
        _leave(broker, partition, "its leader znode does not exist")
        candidacy = await _candidacy(broker, partition, found)
        if candidacy is None:
            return
        if candidacy.replicas[0] != broker.id and not has_waited:
            wait_ms = broker.configuration.leader_election_wait_time_ms
            _start_timer(broker, partition, wait_ms, rules.ELECTION_WAIT)
            return
        reason = Reason(rules.WRITE_LEADERSHIP)
        errors = await write_atomically(broker, candidacy.operations, reason)
        if all(error == OK for error in errors):
            await _lead(broker, partition, candidacy)
            return
        if any(error not in _RACED for error in errors):
            path = znodes.leader_path(*partition.name)
            text = f"ZooKeeper refused the election (codes {errors}); it is tried again"
            content = str(errors).encode()
            broker.notice_once("error", _REFUSED, path, text, rules.ELECTION_RETRY, content)
            _retry(broker, partition)
            return


async def _read_election_znodes(broker: Broker, partition: Partition) -> ZnodeColumns:
    name = partition.name
    paths = [
        znodes.replicas_path(*name),
        znodes.isr_path(*name),
        znodes.leader_path(*name),
        znodes.EPOCH,
    ]
    found = await read_znodes(broker, paths, rules.ELECT_OR_FOLLOW)
    for path, error in zip(paths, found.errors, strict=True):
        if error == NO_NODE:
            broker.forget(path)
    return found


def _leave(broker: Broker, partition: Partition, why: str) -> None:
    """There is no leader: a leadership of this broker ends (L-05), a follower stops."""
    if partition.is_leader or partition.commit_queue:
        step_down(broker, partition, why, rules.STEP_DOWN)
    partition.forget_leader()


def _retry(broker: Broker, partition: Partition) -> None:
    """Try again later (E-08)."""
    _start_timer(broker, partition, broker.configuration.retry_ms, rules.ELECTION_RETRY)


def _start_timer(broker: Broker, partition: Partition, delay_ms: int, rule: str) -> None:
    broker.start_timer(timer_of(ELECTION, partition.name), delay_ms, rule)


async def _follow(broker: Broker, partition: Partition, found: ZnodeColumns) -> None:
    """There is a leader: another broker, this session of this broker, or an earlier one (R-04)."""
    path = znodes.leader_path(*partition.name)
    leader = broker.read(znodes.read_leader, path, found.data[_LEADER])
    if leader is None:
        return
    broker.forget(znodes.isr_path(*partition.name), _UNASSIGNED_ISR)
    if leader.broker != broker.id:
        _note_versions(partition, found)
        await become_follower(broker, partition, leader)
    elif found.owners[_LEADER] != broker.session_id:
        _leave(broker, partition, "its leader znode belongs to another session")
        text = "the znode is of an earlier session of this broker; waiting for its deletion"
        broker.notice("info", "old_leader_znode", path, text, rules.OLD_LEADER_ZNODE)
    elif not partition.is_leader or partition.epoch != leader.epoch:
        await _won(broker, partition, found, leader)


async def _won(
    broker: Broker, partition: Partition, found: ZnodeColumns, leader: LeaderZnode
) -> None:
    """This session created the znode; the reply to that or to a later transaction was lost."""
    topic, number = partition.name
    if found.errors[_ISR] == NO_NODE and broker.configuration.rules > THIRD_RULES:
        _report_missing_isr(broker, partition)
        _retry(broker, partition)
        return
    replicas = _read_replicas(broker, partition, found)
    in_sync = _read_isr(broker, partition, found) if replicas else None
    if replicas is None or in_sync is None:
        _retry(broker, partition)
        return
    isr = tuple(one for one in replicas if one in in_sync)
    if broker.id not in isr:
        _leave(broker, partition, "the ISR does not have this broker")
        text = "this broker has created the leader znode, but is not in the ISR: correct the ISR"
        name, rule, content = f"{topic}-{number}", rules.NOT_ELIGIBLE, str(in_sync).encode()
        broker.notice_once("error", _NOT_ELIGIBLE, name, text, rule, content)
        _retry(broker, partition)
        return
    _note_versions(partition, found)
    # In this leader epoch, replicas may have been removed and added again.
    version, assigned_at = found.versions[_ISR], partition.replicas_version
    won = _Candidacy(leader.epoch, replicas, isr, version, [], assigned_at)
    await _lead(broker, partition, won)


async def _lead(broker: Broker, partition: Partition, won: _Candidacy) -> None:
    topic, number = partition.name
    broker.forget(f"{topic}-{number}", _NOT_ELIGIBLE)
    broker.forget(znodes.leader_path(topic, number), _REFUSED)
    broker.forget(znodes.isr_path(topic, number), _MISSING_ISR)
    partition.isr_version, partition.epoch_version = won.isr_version, won.epoch_version
    await become_leader(broker, partition, won.epoch, won.replicas, won.isr, won.assigned_at)


def _note_versions(partition: Partition, found: ZnodeColumns) -> None:
    partition.replicas_version = found.versions[_REPLICAS]


def _read_replicas(
    broker: Broker, partition: Partition, found: ZnodeColumns
) -> tuple[int, ...] | None:
    path = znodes.replicas_path(*partition.name)
    return broker.read(znodes.read_brokers, path, found.data[_REPLICAS])


def _read_isr(broker: Broker, partition: Partition, found: ZnodeColumns) -> tuple[int, ...] | None:
    path = znodes.isr_path(*partition.name)
    isr = broker.read(znodes.read_isr, path, found.data[_ISR])
    return None if isr is None else isr.brokers


async def _next_epoch(broker: Broker, partition: Partition, found: ZnodeColumns) -> int | None:
    """The epoch of the next leader (E-04); None if it is unknown. It is never lower than one that
    this partition or this broker has seen (E-09)."""
    data = found.data[_EPOCH] if found.errors[_EPOCH] == OK else None
    is_earlier = broker.configuration.rules <= SECOND_RULES
    if is_earlier and found.errors[_EPOCH] != OK:
        return 1
    if not is_earlier and data in (None, znodes.NO_EPOCH_CONTENT):
        return await epoch_after_all(broker, "has no epoch")
    if is_earlier:
        epoch = broker.read(lambda _, data: znodes.read_epoch(data), znodes.EPOCH, data)
        return None if epoch is None else epoch + 1
    try:
        epoch = znodes.read_epoch(data)
    except ZnodeError:
        # The election writes over it, if it has not changed.
        return await epoch_after_all(
            broker, f"has unreadable content, {_quoted_excerpt(data)}", warn=True
        )
    if epoch < seen_epoch(broker, partition, found):
        return await epoch_after_all(broker, f"has epoch {epoch}")
    return epoch + 1


def _quoted_excerpt(data: bytes | None) -> str:
    return repr((data or b"")[:80].decode("utf-8", "backslashreplace"))


def seen_epoch(broker: Broker, partition: Partition, found: ZnodeColumns) -> int:
    """The highest leader epoch that this broker has seen, or the ISR of the partition has."""
    epochs = [one.epoch for one in broker.partitions.values()]
    if found.errors[_ISR] == OK:
        path = znodes.isr_path(*partition.name)
        epochs.append(znodes.read_isr(path, found.data[_ISR]).epoch)
    return max(epochs, default=NO_EPOCH)


async def _candidacy(
    broker: Broker, partition: Partition, found: ZnodeColumns
) -> _Candidacy | None:
    """The state that this broker writes to become leader; None if it must not (E-01). If no broker
    can become leader until the administrator corrects a znode, it is tried again (E-08)."""
    has_isr = found.errors[_ISR] == OK
    if not has_isr and _had_leader(broker, partition):
        _report_missing_isr(broker, partition)
        _retry(broker, partition)
        return None
    broker.forget(znodes.isr_path(*partition.name), _MISSING_ISR)
    replicas = _read_replicas(broker, partition, found)
    in_sync = _read_isr(broker, partition, found) if replicas and has_isr else (broker.id,)
    if replicas is None or in_sync is None:
        _retry(broker, partition)
        return None
    isr = tuple(one for one in replicas if one in in_sync)
    if has_isr and not isr and broker.configuration.rules != FIRST_RULES:
        _report_unassigned_isr(broker, partition, replicas, in_sync)
        _retry(broker, partition)
        return None
    broker.forget(znodes.isr_path(*partition.name), _UNASSIGNED_ISR)
    if broker.id not in isr:
        topic, number = partition.name
        what = "the ISR" if broker.id in replicas else "the assigned replicas"
        text = f"there is no leader, and this broker is not in {what}: it waits for a leader"
        broker.notice("info", _NOT_ELIGIBLE, f"{topic}-{number}", text, rules.NOT_ELIGIBLE)
        return None
    epoch = await _next_epoch(broker, partition, found)
    if epoch is None:
        _retry(broker, partition)
        return None
    _note_versions(partition, found)
    content = znodes.write_isr(Isr(isr, epoch))
    version = found.versions[_ISR]
    path = znodes.isr_path(*partition.name)
    leader = znodes.write_leader(LeaderZnode(broker.id, epoch))
    has_epoch = found.errors[_EPOCH] == OK
    operations: list[WriteOperation] = [
        SetData(znodes.EPOCH, znodes.write_epoch(epoch), found.versions[_EPOCH])
        if has_epoch
        else Create(znodes.EPOCH, znodes.write_epoch(epoch)),
        SetData(path, content, version) if has_isr else Create(path, content),
        Create(znodes.leader_path(*partition.name), leader, ephemeral=True),
    ]
    isr_version = version + 1 if has_isr else 0
    epoch_version = found.versions[_EPOCH] + 1 if has_epoch else 0
    return _Candidacy(epoch, replicas, isr, isr_version, operations, epoch_version=epoch_version)


def _had_leader(broker: Broker, partition: Partition) -> bool:
    """Whether this incarnation of the partition had a leader, and therefore an ISR (E-06), as far
    as this broker knows."""
    is_earlier = broker.configuration.rules <= THIRD_RULES
    return not is_earlier and (partition.epoch != NO_EPOCH or partition.local.leo > 0)


def _report_missing_isr(broker: Broker, partition: Partition) -> None:
    path = znodes.isr_path(*partition.name)
    example = znodes.write_isr(Isr((broker.id,), max(partition.epoch, 1))).decode()
    text = (
        f"no broker can become leader: {path} does not exist, although the partition had a leader: "
        f"create it with the replicas that have all committed records, such as {example}; the "
        "election is tried again"
    )
    broker.notice_once("error", _MISSING_ISR, path, text, rules.ELECTION_RETRY, b"")


def _report_unassigned_isr(
    broker: Broker, partition: Partition, replicas: tuple[int, ...], in_sync: tuple[int, ...]
) -> None:
    """No assigned replica is in the ISR: a znode was written by mistake."""
    path = znodes.isr_path(*partition.name)
    text = (
        f"no broker can become leader: none of the assigned replicas {list(replicas)} is in the "
        f"ISR {list(in_sync)}: correct {path} or the replicas; the election is tried again"
    )
    content = f"{replicas} {in_sync}".encode()
    broker.notice_once("warning", _UNASSIGNED_ISR, path, text, rules.ELECTION_RETRY, content)
