"""Deleting the replicas that leave an assignment, until their brokers have confirmed it.

Each unconfirmed deletion is a child of /admin/replica_deletions. It is sent again when its broker
registers, and by the next controller (DELETIONS_REMEMBERED;
docs/kip-236-design.md#deleted-replicas).
"""

from collections.abc import Iterable
from typing import Final

from controller.core.commands import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Reason,
    StartTimer,
    StopReplicaRequest,
)
from controller.core.controller import Controller
from controller.core.deviations import DELETIONS_REMEMBERED
from controller.core.error_codes import (
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    STALE_CONTROLLER_EPOCH,
)
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.events import BrokerResponded
from controller.core.failures import excerpt, listed_names
from controller.core.operations import NO_NODE, NODE_EXISTS, OK, Create, Delete, WriteOperation
from controller.core.procedures.elections.replica_state_machine import Replicas, change_replicas
from controller.core.procedures.reassignment.leader_epochs import raise_leader_epochs
from controller.core.state import Partition, PendingDeletion, Topic
from controller.core.state_machines import ReplicaState
from controller.core.triggers import ReplicaDeletions
from controller.core.values import ANY_VERSION, NO_EPOCH, LeaderAndIsr
from controller.core.znodes import (
    DELETION_PREFIX,
    REPLICA_DELETIONS,
    Name,
    ReplicaDeletion,
    deletion_path,
    read_deletion,
    topic_path,
    write_deletion,
)
from controller.core.zookeeper_io import fetch_znodes, read_children, read_znodes, write

TIMER: Final = "replica deletions"
_RULE: Final = "replica deletions"
_CONFIRMED_MS_MAX: Final = 2_000
_NAMES_MAX: Final = 5_000
"""The limit for one znode: below 1 MB whatever the topic names are."""
_NOTHING: Final = b""


async def delete_replicas(controller: Controller, replicas: Replicas, rule: str) -> None:
    """Stop replicas that are offline and delete their files (ReplicaStateMachine, KB 5).

    Does not wait for responses (KB 7.7.1). The deletions are stored first: a controller that has
    lost its role fails at this write, and requests nothing. Raises ProcedureError.
    """
    remember(controller, replicas)
    await _store_deletions(controller)
    for state in (
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        await change_replicas(controller, replicas, state, rule)


def remember(controller: Controller, replicas: Replicas) -> None:
    """Note the requested deletions that are not noted yet, and report brokers that are not
    registered."""
    if not _applies(controller):
        return
    context = controller.context
    noted = {(one.broker, name) for one in context.deletions.values() for name in one.names}
    for broker, partitions in replicas.items():
        names = [one.key for one in partitions]
        new = [name for name in names if (broker, name) not in noted]
        is_registered = broker in context.brokers
        if names and not is_registered:
            _report(controller, broker, names)
        for start in range(0, len(new), _NAMES_MAX):
            context.deletion_count += 1
            child = f"{context.epoch}_{context.deletion_count}"
            pending = PendingDeletion(broker, new[start : start + _NAMES_MAX])
            pending.is_reported = not is_registered
            context.deletions[child] = pending
    _start_timer(controller)


def _applies(controller: Controller) -> bool:
    configuration = controller.configuration
    return configuration.has_kip_236 and DELETIONS_REMEMBERED.applies(configuration)


async def _store_deletions(controller: Controller) -> None:
    """Store the unconfirmed deletions in ZooKeeper. Raises ProcedureError."""
    pending = controller.context.deletions
    unstored = {child: one for child, one in pending.items() if not one.is_stored and one.names}
    creates: list[WriteOperation] = [
        Create(deletion_path(child), write_deletion(ReplicaDeletion(one.broker, tuple(one.names))))
        for child, one in unstored.items()
    ]
    while creates:
        errors = (await write(controller, creates, Reason(_RULE))).errors
        if NO_NODE in errors:
            await _make_parent(controller)
        elif any(one not in (OK, NODE_EXISTS) for one in errors):
            raise ProcedureError(
                f"{REPLICA_DELETIONS} cannot be written (ZooKeeper codes {errors})"
            )
        creates = [one for one, error in zip(creates, errors, strict=True) if error == NO_NODE]
    for one in unstored.values():
        one.is_stored = True


async def _make_parent(controller: Controller) -> None:
    await write(controller, [Create(REPLICA_DELETIONS, _NOTHING)], Reason(_RULE))


# Confirmation by brokers ------------------------------------------------------------------------


def confirm_deletions(
    controller: Controller, response: BrokerResponded, request: StopReplicaRequest
) -> None:
    """A broker has deleted replicas: all those that its response does not list with an error."""
    if not controller.context.deletions or response.error:
        return
    failed = {(topic, number) for topic, number, _ in response.partition_errors}
    deleted = {(one.topic, one.partition) for one in request.partitions if one.delete} - failed
    this_term = f"{controller.context.epoch}_"
    for child, one in controller.context.deletions.items():
        if one.broker != response.broker or deleted.isdisjoint(one.names):
            continue
        one.names = [name for name in one.names if name not in deleted]
        if not one.names:
            controller.enqueue(ReplicaDeletions())
            if one.is_reported or not child.startswith(this_term):
                text = "the broker has deleted the replicas that were left on its disks"
                controller.notice("info", "replicas_deleted", f"broker {one.broker}", text)


def note_responses(
    controller: Controller, response: BrokerResponded, request: LeaderAndIsrRequest
) -> None:
    """A broker has accepted or refused replicas, some of which were to be deleted before they were
    assigned again. Responses about an earlier topic of the same name do not count."""
    errors = {(topic, number): code for topic, number, code in response.partition_errors}
    for one in controller.context.deletions.values():
        if one.broker != response.broker or not one.names:
            continue
        pending = dict.fromkeys(one.names)
        for each in request.partitions:
            name = each.topic, each.partition
            if name not in pending or not _is_assigned(controller, one.broker, name):
                continue
            state = _find_current_state(controller, each)
            if state is None:
                continue
            topic_id = each.topic_id.hex() if each.topic_id is not None else each.topic
            error = errors.get(name) or errors.get((topic_id, each.partition))
            if error == KAFKA_STORAGE_ERROR:
                continue
            # The last response counts.
            one.accepted = [other for other in one.accepted if other != name]
            one.refused = [other for other in one.refused if other != name]
            is_refused = _is_replica_refused(controller, one.broker, state, error)
            answers = one.refused if is_refused else one.accepted
            answers.append(name)
            controller.enqueue(ReplicaDeletions())


def _find_current_state(
    controller: Controller, requested: LeaderAndIsrPartition
) -> LeaderAndIsr | None:
    """The state of the partition of a request; None if the request was for a topic that was deleted
    since. Without a topic id, another leader epoch than the present one shows it; the response to
    the request with that one follows."""
    partition = controller.context.find(requested.topic, requested.partition)
    if partition is None or partition.leadership is None:
        return None
    if requested.topic_id is not None and partition.topic.id is not None:
        is_current = requested.topic_id == partition.topic.id
    else:
        is_current = requested.leadership.leader_epoch == partition.leadership.leader_epoch
    return partition.leadership if is_current else None


def _is_replica_refused(
    controller: Controller, broker: int, state: LeaderAndIsr, error: int | None
) -> bool:
    """Whether a broker rejects a replica, probably because it has the log of an earlier topic.

    Without topic ids, a leader epoch that is not higher than that of the log shows it (KB 12.4.2),
    but so does one that the broker knows already: `_prepare_earlier_replicas` decides.
    """
    if error == STALE_CONTROLLER_EPOCH and not controller.protocol.has_topic_ids:
        return broker not in state.isr
    return error == INCONSISTENT_TOPIC_ID


def _start_timer(controller: Controller) -> None:
    context = controller.context
    is_due = any(not one.is_reported and one.names for one in context.deletions.values())
    if is_due and not context.is_deletion_timed:
        context.is_deletion_timed = True
        controller.issue(StartTimer(TIMER, _CONFIRMED_MS_MAX), Reason(_RULE))


def report_unconfirmed(controller: Controller) -> None:
    """Report the brokers that had at least 2 s to confirm deletions and did not."""
    context = controller.context
    context.is_deletion_timed = False
    for one in context.deletions.values():
        if one.names and one.is_due and not one.is_reported:
            _report(controller, one.broker, one.names)
            one.is_reported = True
        one.is_due = True
    _start_timer(controller)


def _report(controller: Controller, broker: int, names: list[Name]) -> None:
    is_registered = broker in controller.context.brokers
    why = "has not confirmed the deletion" if is_registered else "is not registered"
    text = (
        f"the broker {why}, and may still have its replicas of {listed_names(names)}: the deletion "
        f"is recorded in {REPLICA_DELETIONS} and requested again when the broker registers"
    )
    controller.notice("warning", "replicas_not_deleted", f"broker {broker}", text)
    controller.observer.deviates(DELETIONS_REMEMBERED, f"broker {broker}")


# Records in ZooKeeper ---------------------------------------------------------------------------


async def process_deletions(controller: Controller) -> None:
    """Remove confirmed deletions, and request those that others have written below
    /admin/replica_deletions: an earlier controller, or `refold reassign --delete-strays`."""
    if not _applies(controller):
        return
    context = controller.context
    found = await read_children(controller, REPLICA_DELETIONS, _RULE, watch=True)
    if found.error == NO_NODE:
        await _make_parent(controller)
        found = await read_children(controller, REPLICA_DELETIONS, _RULE, watch=True)
    for child in [child for child, one in context.deletions.items() if one.is_stored]:
        if child not in found.children:
            del context.deletions[child]
    new = await _read_new_deletions(
        controller, [one for one in found.children if one not in context.deletions]
    )
    context.deletions.update(new)
    await _decide_on_assigned(controller)
    request_deletions(controller, new.values())
    await _remove_confirmed(controller)


async def _read_new_deletions(
    controller: Controller, children: list[str]
) -> dict[str, PendingDeletion]:
    paths = [deletion_path(one) for one in children]
    found = await read_znodes(controller, paths, _RULE)
    read: dict[str, PendingDeletion] = {}
    unusable: list[WriteOperation] = []
    for child, path, error, data in zip(children, paths, found.errors, found.data, strict=True):
        if error != OK:
            continue
        try:
            one = read_deletion(path, data)
        except ZnodeError as unreadable:
            text = f"{unreadable}; the znode is deleted; its content was {excerpt(data)}"
            controller.notice("error", "unreadable_znode", path, text)
            unusable.append(Delete(path, ANY_VERSION))
            continue
        read[child] = PendingDeletion(one.broker, list(one.partitions), is_stored=True)
    if unusable:
        await write(controller, unusable, Reason(_RULE))
    return read


async def _decide_on_assigned(controller: Controller) -> None:
    """Decide on replicas that are assigned again.

    If the topic was created again meanwhile, the broker refuses the replica until the log of the
    earlier topic is deleted. Other replicas are not deleted, which is reported. Which of the two it
    is, the broker's response to LeaderAndIsr shows.
    """
    for child, one in list(controller.context.deletions.items()):
        assigned = [name for name in one.names if _is_assigned(controller, one.broker, name)]
        is_requested = deletion_path(child).startswith(DELETION_PREFIX)
        accepted, refused = dict.fromkeys(one.accepted), dict.fromkeys(one.refused)
        replaced = dict.fromkeys(one.replaced)
        one.accepted, one.refused = [], []
        rejected = [name for name in assigned if name in refused and name not in replaced]
        earlier = await _prepare_earlier_replicas(controller, child, one.broker, rejected)
        accepted.update(dict.fromkeys(name for name in rejected if name not in earlier))
        others = [name for name in assigned if name not in refused or name in accepted]
        dropped = [name for name in others if is_requested or name in accepted]
        gone = dict.fromkeys(dropped)
        waiting = [name for name in others if name not in gone and name not in replaced]
        if dropped:
            one.names = [name for name in one.names if name not in gone]
            level = "warning" if is_requested else "info"
            text = f"{listed_names(dropped)}: not deleted, because broker {one.broker} is a replica"
            controller.notice(level, "deletion_dropped", deletion_path(child), text)
        if earlier:
            one.replaced.extend(earlier)
            _delete_earlier(controller, one.broker, earlier)
        _send_leaders(controller, one.broker, (*earlier, *waiting))


async def _prepare_earlier_replicas(
    controller: Controller, child: str, broker: int, names: list[Name]
) -> list[Name]:
    """Prepare the deletion of the rejected replicas whose logs are those of earlier topics, and
    return these replicas. With topic ids, these are all, and there is nothing to prepare.

    Otherwise their deletion was recorded before the topics that exist now were created, and they
    are not in the ISR. Their partitions get new leader epochs first. Until the leader knows its
    own, it cannot write the ISR, and until the broker knows it, the leader rejects its fetches: so
    the replica is not in sync when it is deleted.
    """
    if not names or controller.protocol.has_topic_ids:
        return names
    paths = [deletion_path(child), *(topic_path(topic) for topic, _ in names)]
    found = await fetch_znodes(controller, paths, _RULE)
    if found.errors[0] != OK:
        return []
    recorded, *created = found.czxids
    of_earlier = [name for name, czxid in zip(names, created, strict=True) if czxid > recorded]
    partitions = _partitions(controller, of_earlier)
    errors = await raise_leader_epochs(controller, partitions)
    raised = [one for one in partitions if one not in errors]
    batch = controller.new_batch(_RULE)
    for partition in raised:
        others = [one for one in partition.replicas if one != broker]
        batch.add_leader_and_isr(others, partition, is_new=False)
    controller.send(batch)
    return [
        one.key for one in raised if one.leadership is not None and broker not in one.leadership.isr
    ]


def _delete_earlier(controller: Controller, broker: int, names: list[Name]) -> None:
    """The broker has refused these replicas: ask it to delete the logs of the earlier topic."""
    batch = controller.new_batch(_RULE)
    for partition in _partitions(controller, names):
        controller.observer.deviates(DELETIONS_REMEMBERED, repr(partition))
        batch.add_stop_replica((broker,), partition, delete=True, leader_epoch=NO_EPOCH)
    controller.send(batch)
    text = (
        f"{listed_names(names)}: the broker rejects the replica, because it has not confirmed the "
        "deletion of the log of an earlier topic of the same name: the deletion is requested again"
    )
    controller.notice("info", "earlier_log_deleted", f"broker {broker}", text)


def _send_leaders(controller: Controller, broker: int, names: Iterable[Name]) -> None:
    batch = controller.new_batch(_RULE)
    with_leaders = [one for one in _partitions(controller, names) if one.leadership is not None]
    batch.add_leader_and_isr_to(broker, with_leaders, is_new=False)
    controller.send(batch)


def _partitions(controller: Controller, names: Iterable[Name]) -> list[Partition]:
    context = controller.context
    found = [context.find(*name) for name in names]
    return [one for one in found if one is not None and not context.is_queued(one)]


def _is_assigned(controller: Controller, broker: int, name: Name) -> bool:
    partition = controller.context.find(*name)
    return partition is not None and broker in partition.replicas


def request_deletions(controller: Controller, pending: Iterable[PendingDeletion]) -> None:
    """Ask the registered brokers to delete the replicas that they may still have.

    The requests have no leader epoch: that of the log may be higher if it is the log of an earlier
    topic, and Kafka 2.8 rejects an equal one as well (KB 12.4.3).
    """
    batch = controller.new_batch(_RULE)
    for one in pending:
        for name in one.names:
            if not _is_assigned(controller, one.broker, name):
                partition = controller.context.find(*name) or Partition(Topic(name[0]), name[1])
                controller.observer.deviates(DELETIONS_REMEMBERED, repr(partition))
                brokers = (one.broker,)
                batch.add_stop_replica(brokers, partition, delete=True, leader_epoch=NO_EPOCH)
    controller.send(batch)
    _start_timer(controller)


def request_deletions_again(controller: Controller, brokers: Iterable[int]) -> None:
    """These brokers have registered: request their unconfirmed deletions again."""
    registered = dict.fromkeys(brokers)
    pending = [one for one in controller.context.deletions.values() if one.broker in registered]
    for one in pending:
        one.replaced = []
    if pending:
        request_deletions(controller, pending)


async def _remove_confirmed(controller: Controller) -> None:
    pending = controller.context.deletions
    confirmed = [child for child, one in pending.items() if not one.names]
    deletes: list[WriteOperation] = [
        Delete(deletion_path(child), ANY_VERSION) for child in confirmed if pending[child].is_stored
    ]
    for child in confirmed:
        del pending[child]
    if not deletes:
        return
    writes = await write(controller, deletes, Reason(_RULE))
    for operation, error in zip(deletes, writes.errors, strict=True):
        if error not in (OK, NO_NODE):
            text = (
                "the deletion is confirmed, but the znode cannot be deleted (ZooKeeper code "
                f"{error}): delete the znode"
            )
            controller.notice("warning", "deletion_not_removed", operation.path, text)
