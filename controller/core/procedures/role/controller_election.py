"""Taking, keeping and resigning the controller role (KB 6.1, 13). The daemon has the role if its
session owns /controller. The broker id in the znode does not decide, because the znode may belong
to an earlier session of the daemon (ROLE_BY_SESSION). In that case Kafka answers requests as a
controller without state; the daemon is not active.
"""

from enum import Enum, auto

from controller.core import znodes
from controller.core.commands import CancelTimer, CloseChannel, Reason, StartTimer
from controller.core.controller import Controller
from controller.core.deviations import (
    FAILOVER_BACK_OFF,
    RESIGNS_WHEN_FENCED,
    ROLE_BY_SESSION,
    VACANT_ROLE_SEEN,
)
from controller.core.errors import ControllerMovedError, ZnodeError
from controller.core.failures import report_error
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.outcomes import BrokerResponses, Wait, suspend
from controller.core.procedures.admin.waiting_requests import abandon_waiting
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.procedures.reassignment.reassign_partitions import strip_originals
from controller.core.procedures.role.failover import fail_over
from controller.core.procedures.role.following import forget_all
from controller.core.procedures.znode_changes.topic_change import process_topic_change
from controller.core.triggers import Reelect
from controller.core.values import ANY_VERSION, format_session
from controller.core.zookeeper_io import (
    read_latest,
    read_stats,
    read_znodes,
    write,
    write_atomically,
)

_RULE = "controller election"
_FIRST_EPOCH = b"0"
_BACK_OFF_MS = 1_000
BACK_OFF_TIMER = "stand again after a failed failover"
_PROPAGATED_MS_MAX = 2_000
_UNDER_WAY_MS = 500
"""A broker that chose the replicas of a topic with the old metadata has written them by then."""


async def start_up(controller: Controller) -> None:
    """A session began: watch /controller and stand for election, with take_over against a living
    controller too."""
    await elect(controller, take_over=_takes_over(controller))


def _takes_over(controller: Controller) -> bool:
    """Whether to take the role of a living controller. A standby does so only when it starts: later
    it would take the role from the standby that succeeded it."""
    configuration = controller.configuration
    is_start = controller.candidate_session == 0
    return configuration.take_over and (is_start or not configuration.standby)


async def reelect(controller: Controller) -> None:
    """/controller was deleted: stand for election (processReelect, KB 3.2.3)."""
    await maybe_resign(controller)
    await _stand_again(controller)


async def process_controller_change(controller: Controller) -> None:
    """/controller was created or changed (processControllerChange, KB 3.2.2).

    If it no longer exists, its deletion may never be reported: the creation has used up a watch
    that fires once. So the daemon tries to become controller, as after a deletion
    (VACANT_ROLE_SEEN).
    """
    exists = await maybe_resign(controller)
    if not exists and VACANT_ROLE_SEEN.applies(controller.configuration):
        if not controller.is_backing_off and Reelect() not in controller.triggers:
            controller.observer.deviates(VACANT_ROLE_SEEN, znodes.CONTROLLER)
        await _stand_again(controller)


async def _stand_again(controller: Controller) -> None:
    """Stand for election, unless a timer will do so.

    If this daemon has waited for the deletion of /controller since its session began, `take_over`
    counts as at the beginning of the session.
    """
    if not controller.is_backing_off:
        has_waited = controller.is_waiting_for_own_znode
        await elect(controller, take_over=has_waited and _takes_over(controller))


async def elect(controller: Controller, *, take_over: bool = False) -> None:
    """Become controller if there is none, with `take_over` in any case (KafkaController.elect)."""
    try:
        poll = await _stand_until_decided(controller, take_over)
        if poll is Poll.LOST and take_over:
            # Another broker took the role at the same moment, as when a dead controller's session
            # ends. Try once more only: of two controllers that take over, one must end with the
            # role.
            _report_lost(controller, "this daemon takes over once more")
            poll = await _stand_until_decided(controller, take_over)
        if poll is Poll.LOST:
            _report_lost(controller, "this daemon waits until the role is free")
    except ZnodeError as error:
        controller.notice("error", "unreadable_znode", znodes.CONTROLLER_EPOCH, str(error))
        _back_off(controller, "the controller epoch cannot be read")
    if not controller.is_active or controller.context.is_loaded:
        return
    try:
        await fail_over(controller)
    except ControllerMovedError:
        await maybe_resign(controller, fenced=True)
    except Exception as error:
        report_error(controller, "failover_failed", znodes.CONTROLLER, error)
        if FAILOVER_BACK_OFF.applies(controller.configuration):
            controller.observer.deviates(FAILOVER_BACK_OFF, znodes.CONTROLLER)
            _back_off(controller, "failover failed")
        await give_up(controller)


def _report_lost(controller: Controller, next_step: str) -> None:
    text = f"another broker became controller at the same time; {next_step}"
    controller.notice("info", "lost_election", znodes.CONTROLLER, text)


def _back_off(controller: Controller, why: str) -> None:
    """Stand for election again after a delay."""
    controller.is_backing_off = True
    controller.issue(StartTimer(BACK_OFF_TIMER, _BACK_OFF_MS), Reason(why))


class Poll(Enum):
    """The result of standing for election."""

    DECIDED = auto()
    LOST = auto()
    """Another broker became controller at the same time."""
    UNKNOWN = auto()
    """The reply was lost, and the write did not happen."""


async def _stand_until_decided(controller: Controller, take_over: bool) -> Poll:
    """Stand for election until the result is known."""
    while (poll := await _stand(controller, take_over)) is Poll.UNKNOWN:
        # The connection broke and nothing was done: try again.
        pass
    return poll


async def _stand(controller: Controller, take_over: bool) -> Poll:
    """Read /controller, and take the role if it is free or may be taken."""
    await read_stats(controller, [znodes.CONTROLLER], _RULE, watch=True)
    found = await read_znodes(controller, [znodes.CONTROLLER, znodes.CONTROLLER_EPOCH], _RULE)
    controller.is_waiting_for_own_znode = False
    held = found.errors[0] == OK
    if held:
        owner, data = found.owners[0], found.data[0]
        is_ours = owner == controller.session_id
        if is_ours and controller.is_active:
            return Poll.DECIDED
        if not is_ours and not _check_replaceable(controller, owner, data):
            return Poll.DECIDED
        is_by_session = ROLE_BY_SESSION.applies(controller.configuration)
        if _is_daemon_id(controller, data):
            if not is_by_session:
                return Poll.DECIDED
            controller.observer.deviates(ROLE_BY_SESSION, znodes.CONTROLLER)
        if not is_ours and _wait_for_own_znode(controller, owner):
            return Poll.DECIDED
        if not is_ours and not take_over and owner != controller.candidate_session:
            _report_current_controller(controller, data)
            return Poll.DECIDED
    if found.errors[1] == NO_NODE:
        create = Create(znodes.CONTROLLER_EPOCH, _FIRST_EPOCH)
        reason = Reason("create the controller epoch")
        [error] = await write_atomically(controller, [create], reason)
        if error not in (OK, NODE_EXISTS, CONNECTION_LOSS):
            raise ZnodeError(f"{create.path} cannot be created (ZooKeeper code {error})")
        return Poll.UNKNOWN
    epoch = znodes.read_controller_epoch(found.data[1])
    held_version = found.versions[0] if held else None
    return await _take_role(controller, epoch, found.versions[1], held_version)


def _wait_for_own_znode(controller: Controller, owner: int) -> bool:
    """Wait until ZooKeeper has deleted the /controller of the daemon's previous session, as a
    broker of Kafka 0.8 does with its registration (KB 16.5; ZOOKEEPER-1740). Returns whether it
    waits."""
    is_left = owner == controller.candidate_session
    if not is_left or not controller.configuration.waits_for_own_znode:
        return False
    controller.is_waiting_for_own_znode = True
    text = (
        f"{znodes.CONTROLLER} still belongs to this daemon's previous session "
        f"{format_session(owner)}: the daemon waits until ZooKeeper has deleted the znode"
    )
    controller.notice("warning", "own_znode_left", znodes.CONTROLLER, text)
    return True


def _is_daemon_id(controller: Controller, data: bytes | None) -> bool:
    holder = znodes.read_controller(data)
    return holder is not None and holder.brokerid == controller.configuration.broker_id


def _report_current_controller(controller: Controller, data: bytes | None) -> None:
    holder = znodes.read_controller(data)
    who = f"broker {holder.brokerid}" if holder else "a node with an unreadable id"
    controller.notice(
        "info", "standing_by", znodes.CONTROLLER, f"{who} is controller; this daemon waits"
    )


def _check_replaceable(controller: Controller, owner: int, data: bytes | None) -> bool:
    """Stop for a persistent /controller, or one of KRaft: it is never replaced
    (docs/design.md#zookeeper-and-brokers). Returns whether it may be."""
    holder = znodes.read_controller(data)
    if owner != 0 and (holder is None or holder.kraftControllerEpoch <= 0):
        return True
    text = (
        "it is persistent" if owner == 0 else "a KRaft controller holds it"
    ) + ": a migration to KRaft is under way, refold must not run in this cluster"
    text = f"{znodes.CONTROLLER}: {text}"
    controller.notice("error", "foreign_controller", znodes.CONTROLLER, text)
    controller.stop(text, _RULE)
    return False


async def _take_role(
    controller: Controller, epoch: int, epoch_version: int, held_version: int | None
) -> Poll:
    """One multi: delete the old znode, create the new one, raise the epoch (KB 6.1 step 2)."""
    if RESIGNS_WHEN_FENCED.applies(controller.configuration):
        # Brokers and state znodes know the earlier epochs: they would refuse a lower one.
        epoch = max(epoch, controller.last_epoch)
    data = znodes.write_controller(controller.configuration.broker_id, controller.now_ms)
    raised = str(epoch + 1).encode()
    operations: list[WriteOperation] = [
        Create(znodes.CONTROLLER, data, ephemeral=True),
        SetData(znodes.CONTROLLER_EPOCH, raised, epoch_version),
    ]
    if held_version is not None:
        operations.insert(0, Delete(znodes.CONTROLLER, held_version))
    controller.candidate_session = controller.session_id
    errors = await write_atomically(controller, operations, Reason(_RULE))
    if CONNECTION_LOSS in errors and not await _has_role(controller, raised):
        return Poll.UNKNOWN
    if any(errors) and CONNECTION_LOSS not in errors:
        if any(one in (NODE_EXISTS, NO_NODE, BAD_VERSION) for one in errors):
            return Poll.LOST
        text = f"the role cannot be taken (ZooKeeper codes {errors})"
        controller.notice("error", "role_not_taken", znodes.CONTROLLER, text)
        return Poll.DECIDED
    kept = controller.context.topics
    context = controller.context = controller.new_context()
    context.topics = kept
    context.epoch, context.epoch_version = epoch + 1, epoch_version + 1
    controller.last_epoch = context.epoch
    controller.is_active = True
    return Poll.DECIDED


async def _has_role(controller: Controller, raised: bytes) -> bool:
    """After a lost reply: whether the daemon has the role."""
    found = await read_latest(controller, [znodes.CONTROLLER, znodes.CONTROLLER_EPOCH], _RULE)
    return found.owners[0] == controller.session_id and found.data[1] == raised


async def maybe_resign(controller: Controller, *, fenced: bool = False) -> bool:
    """Read who owns /controller; resign if this daemon was controller and no longer is (KB 3.2.2).

    Returns whether the znode existed.

    `fenced`: a write was refused. If this daemon still owns /controller, only the epoch has
    changed, and the role is taken again (RESIGNS_WHEN_FENCED).
    """
    await read_stats(controller, [znodes.CONTROLLER], _RULE, watch=True)
    found = await read_znodes(controller, [znodes.CONTROLLER], _RULE)
    exists = found.errors[0] == OK
    is_ours = exists and found.owners[0] == controller.session_id
    if not controller.is_active:
        return exists
    if not is_ours:
        resign(controller, "another controller was found")
    elif fenced and RESIGNS_WHEN_FENCED.applies(controller.configuration):
        text = "another client changed the controller epoch: this daemon takes the role again"
        controller.notice("warning", "epoch_changed", znodes.CONTROLLER_EPOCH, text)
        controller.observer.deviates(RESIGNS_WHEN_FENCED, znodes.CONTROLLER_EPOCH)
        resign(controller, "the controller epoch was changed")
        await elect(controller)
    return exists


def resign(controller: Controller, why: str, *, keeps_topics: bool = False) -> None:
    """Stop acting as controller (onControllerResignation, KB 13.4). Does not use ZooKeeper."""
    context = controller.context
    if controller.is_active:
        controller.notice("info", "resigned", znodes.CONTROLLER, why)
    for broker in sorted(context.channels):
        controller.issue(CloseChannel(broker, context.channels[broker]), Reason("resignation"))
    if controller.is_active and controller.configuration.auto_leader_rebalance_enable:
        controller.issue(CancelTimer(rebalance_timer(controller)), Reason("resignation"))
    controller.is_active = False
    controller.leftover_channels = frozenset()
    abandon_waiting(controller)
    controller.context = controller.new_context()
    forget_all(controller)
    if keeps_topics:
        controller.context.topics = context.topics
    else:
        controller.observer.drops_topics(context.topics.values())


async def give_up(controller: Controller) -> None:
    """Hand the role to another broker (triggerControllerMove, KB 13.3.3)."""
    found = await read_znodes(controller, [znodes.CONTROLLER], _RULE)
    if found.errors[0] == NO_NODE or found.owners[0] != controller.session_id:
        channels = frozenset(controller.context.channels)
        keeps_state = controller.configuration.keeps_state_without_role
        resign(controller, "the role was already lost", keeps_topics=keeps_state)
        if keeps_state:
            controller.leftover_channels = channels
        return
    delete = Delete(znodes.CONTROLLER, ANY_VERSION)
    try:
        await write(controller, [delete], Reason("give up the role"))
    except ControllerMovedError:
        resign(controller, "another controller took the role meanwhile")
    else:
        resign(controller, "gave up the role")


async def hand_back(controller: Controller, reason: str) -> None:
    """Stop the daemon in order: a stock broker takes the role over."""
    if controller.is_active:
        await _leave_metadata(controller)
    if controller.is_active:
        await _strip_originals(controller)
    if controller.is_active:
        await give_up(controller)
    controller.stop("", f"hand back: {reason}")


async def _strip_originals(controller: Controller) -> None:
    try:
        await strip_originals(controller)
    except ControllerMovedError:
        await maybe_resign(controller)


async def _leave_metadata(controller: Controller) -> None:
    """Make brokers place no more replicas on the daemon (docs/observations.md#the-controller-role).

    Brokers are sent the live brokers without the daemon. A moment after all have responded, or
    after a while, topics that were created with the old list are looked for once more.
    """
    context = controller.context
    if context.daemon_broker is None:
        return
    context.daemon_broker = None
    sent = controller.send_metadata("hand back: leave the live brokers", context.brokers)
    timer = "hand back"
    controller.issue(StartTimer(timer, _PROPAGATED_MS_MAX), Reason(timer))
    if sent:
        await suspend(Wait(None, BrokerResponses(sent, timer)))
    controller.issue(CancelTimer(timer), Reason(timer))
    timer = "hand back: topics under way"
    controller.issue(StartTimer(timer, _UNDER_WAY_MS), Reason(timer))
    await suspend(Wait(None, BrokerResponses([], timer)))
    try:
        await process_topic_change(controller)
    except ControllerMovedError:
        await maybe_resign(controller)
