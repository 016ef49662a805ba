"""Winning, keeping and giving up the controller's role (KB 6.1, 13).

Whether the role is ours is asked of the session that owns /controller, never of the broker id in
it: an earlier session of ours may have left its ephemeral node behind.
"""

from controller.core import znodes
from controller.core.commands import CloseChannel, Reason, Stop
from controller.core.controller import Controller
from controller.core.errors import ControllerMovedError, ZnodeError
from controller.core.operations import (
    CONNECTION_LOSS,
    NO_NODE,
    OK,
    Create,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.procedures.failover import fail_over
from controller.core.procedures.failures import describe
from controller.core.settle import read_stats, read_znodes, write, write_atomically
from controller.core.values import ANY_VERSION

_RULE = "controller election"


async def start_up(controller: Controller) -> None:
    """A session began: watch /controller and elect; with take_over from a living controller too."""
    await elect(controller, take_over=controller.configuration.take_over)


async def reelect(controller: Controller) -> None:
    """/controller went away: elect (processReelect, KB 3.2.3)."""
    await maybe_resign(controller)
    await elect(controller)


async def elect(controller: Controller, *, take_over: bool = False) -> None:
    """Become controller if nobody is, or with `take_over` in any case (KafkaController.elect)."""
    await read_stats(controller, [znodes.CONTROLLER], _RULE, watch=True)
    found = await read_znodes(controller, [znodes.CONTROLLER, znodes.CONTROLLER_EPOCH], _RULE)
    held = found.errors[0] == OK
    if held:
        owner, data = found.owners[0], found.data[0]
        is_ours = owner == controller.session_id
        if is_ours and controller.is_active:
            return
        if not is_ours and not _may_be_replaced(controller, owner, data):
            return
        if not is_ours and not take_over:
            _tell_who_leads(controller, data)
            return
    try:
        epoch, epoch_version = await _epoch(controller, found.errors[1], found.data[1])
        if epoch_version is None:
            epoch_version = found.versions[1]
        await _take_role(controller, epoch, epoch_version, found.versions[0] if held else None)
    except ControllerMovedError as moved:
        controller.notice("info", "lost_election", znodes.CONTROLLER, str(moved))
        return
    try:
        await fail_over(controller)
    except ControllerMovedError:
        await maybe_resign(controller)
    except Exception as error:
        controller.notice("error", "failover_failed", znodes.CONTROLLER, describe(error))
        await give_up(controller)


def _tell_who_leads(controller: Controller, data: bytes | None) -> None:
    holder = znodes.read_controller(data)
    who = f"broker {holder.brokerid}" if holder else "somebody unreadable"
    controller.notice("info", "standing_by", znodes.CONTROLLER, f"{who} is controller; waiting")


def _may_be_replaced(controller: Controller, owner: int, data: bytes | None) -> bool:
    """A persistent /controller or one of KRaft is never taken away (DESIGN.md)."""
    holder = znodes.read_controller(data)
    if owner != 0 and (holder is None or holder.kraftControllerEpoch <= 0):
        return True
    text = (
        "it is persistent" if owner == 0 else "a KRaft controller holds it"
    ) + ": a migration to KRaft is under way, refold must not run in this cluster"
    controller.notice("error", "foreign_controller", znodes.CONTROLLER, text)
    controller.issue(Stop(f"{znodes.CONTROLLER}: {text}"), Reason(_RULE))
    return False


async def _epoch(controller: Controller, error: int, data: bytes | None) -> tuple[int, int | None]:
    """The present epoch; makes /controller_epoch with 0 where it lacks (KB 6.1 step 2).

    The version is None where the caller has read it already.
    """
    if error == OK:
        return znodes.read_controller_epoch(data), None
    create = Create(znodes.CONTROLLER_EPOCH, b"0")
    await write_atomically(controller, [create], Reason("create the controller epoch"))
    found = await read_znodes(controller, [znodes.CONTROLLER_EPOCH], _RULE)
    if found.errors[0] != OK:
        raise ZnodeError(f"{znodes.CONTROLLER_EPOCH} can neither be read nor created")
    return znodes.read_controller_epoch(found.data[0]), found.versions[0]


async def _take_role(
    controller: Controller, epoch: int, epoch_version: int, held_version: int | None
) -> None:
    """One multi: the old node away, ours there, the epoch raised. Raises ControllerMovedError."""
    data = znodes.write_controller(controller.configuration.broker_id, controller.now_ms)
    raised = str(epoch + 1).encode()
    operations: list[WriteOperation] = [
        Create(znodes.CONTROLLER, data, ephemeral=True),
        SetData(znodes.CONTROLLER_EPOCH, raised, epoch_version),
    ]
    if held_version is not None:
        operations.insert(0, Delete(znodes.CONTROLLER, held_version))
    errors = await write_atomically(controller, operations, Reason(_RULE))
    context = controller.context = controller.new_context()
    context.epoch, context.epoch_version = epoch + 1, epoch_version + 1
    if any(errors) and not await _was_done(controller, errors, raised):
        raise ControllerMovedError("another broker became controller at the same time")
    controller.is_active = True


async def _was_done(controller: Controller, errors: list[int], raised: bytes) -> bool:
    """After a lost reply: whether the role is ours (registerControllerAndIncrement..., KB 6.1)."""
    if CONNECTION_LOSS not in errors:
        return False
    found = await read_znodes(controller, [znodes.CONTROLLER, znodes.CONTROLLER_EPOCH], _RULE)
    return found.owners[0] == controller.session_id and found.data[1] == raised


async def maybe_resign(controller: Controller) -> None:
    """Look who holds /controller; resign if it was us and is no longer (KB 3.2.2)."""
    await read_stats(controller, [znodes.CONTROLLER], _RULE, watch=True)
    found = await read_znodes(controller, [znodes.CONTROLLER], _RULE)
    is_ours = found.errors[0] == OK and found.owners[0] == controller.session_id
    if controller.is_active and not is_ours:
        resign(controller, "another controller was seen")


def resign(controller: Controller, why: str) -> None:
    """Stop acting as controller (onControllerResignation, KB 13.4). No ZooKeeper access."""
    context = controller.context
    if controller.is_active:
        controller.notice("info", "resigned", znodes.CONTROLLER, why)
    for broker in sorted(context.channels):
        controller.issue(CloseChannel(broker, context.channels[broker]), Reason("resignation"))
    controller.is_active = False
    controller.context = controller.new_context()


async def give_up(controller: Controller) -> None:
    """Hand the role to another broker (triggerControllerMove, KB 13.3.3)."""
    found = await read_znodes(controller, [znodes.CONTROLLER], _RULE)
    if found.errors[0] == NO_NODE or found.owners[0] != controller.session_id:
        resign(controller, "the role was gone already")
        return
    delete = Delete(znodes.CONTROLLER, ANY_VERSION)
    try:
        await write(controller, [delete], Reason("give up the role"))
    except ControllerMovedError:
        resign(controller, "another controller took the role meanwhile")
    else:
        resign(controller, "gave the role up")


async def hand_back(controller: Controller, reason: str) -> None:
    """The orderly end of the daemon: a stock broker takes the role over."""
    if controller.is_active:
        await give_up(controller)
    controller.issue(Stop(""), Reason(f"hand back: {reason}"))
