"""Races of the controller role: two controllers, or a controller that knows too little."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.fold import Fold
from controller.core.operations import (
    CONNECTION_LOSS,
    OK,
    Check,
    Create,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.outcomes import break_off
from controller.core.procedures.dispatch import process
from controller.core.procedures.role.controller_election import Poll
from controller.core.state import Partition
from controller.core.triggers import (
    ControllerChange,
    Expire,
    HandBack,
    Reelect,
    Startup,
    Trigger,
)
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import read_znodes, write_atomically
from replay.world.inputs import (
    NONE,
    CrashBroker,
    CreateTopic,
    DeleteControllerZnode,
    HoldLink,
    KillController,
    Reassign,
    SlowDisk,
    Target,
)
from replay.world.requests import OperationResult, WriteInMulti
from replay.world.zookeeper import ZooKeeper
from replay.znode_tree.tree import Refused
from tests.races.defect import Defect, generic_with
from tests.races.planting import Replacement, reach

_FIRST: Final = "refold 100"
_SECOND: Final = "refold 101"

_OF_ROLE: Final = (Startup, Reelect, ControllerChange, Expire, HandBack)
_RULE: Final = "controller election"


# R5 -----------------------------------------------------------------------------------------------

Apply = Callable[..., OperationResult]


def _without_guard(write: Apply) -> Apply:
    """A check of the version of /controller_epoch always succeeds: a write without a guard."""

    def planted(
        server: ZooKeeper, session: int, operation: WriteInMulti, now_ms: int, changes: Any
    ) -> OperationResult:
        try:
            return write(server, session, operation, now_ms, changes)
        except Refused:
            if not isinstance(operation, Check) or operation.path != znodes.CONTROLLER_EPOCH:
                raise
            reach()
            return OperationResult(OK)

    return planted


# R6 -----------------------------------------------------------------------------------------------


async def _take_role_in_two_steps(
    controller: Controller, epoch: int, epoch_version: int, held_version: int | None
) -> Poll:
    """Create /controller, then read the controller epoch and raise it."""
    data = znodes.write_controller(controller.configuration.broker_id, controller.now_ms)
    operations: list[WriteOperation] = [Create(znodes.CONTROLLER, data, ephemeral=True)]
    if held_version is not None:
        operations.insert(0, Delete(znodes.CONTROLLER, held_version))
    controller.candidate_session = controller.session_id
    errors = await write_atomically(controller, operations, Reason(_RULE))
    if CONNECTION_LOSS in errors:
        return Poll.UNKNOWN
    if any(errors):
        return Poll.LOST
    found = await read_znodes(controller, [znodes.CONTROLLER_EPOCH], _RULE)
    epoch, version = znodes.read_controller_epoch(found.data[0]) + 1, found.versions[0]
    raised = SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode(), version)
    [error] = await write_atomically(controller, [raised], Reason(_RULE))
    if error != OK:
        return Poll.LOST if error != CONNECTION_LOSS else Poll.UNKNOWN
    context = controller.context = controller.new_context()
    context.epoch, context.epoch_version = epoch, version + 1
    controller.last_epoch = epoch
    controller.is_active = True
    return Poll.DECIDED


def _note_owner(write: Apply) -> Apply:
    """The race: the epoch is raised in a session that does not own /controller."""

    def planted(
        server: ZooKeeper, session: int, operation: WriteInMulti, now_ms: int, changes: Any
    ) -> OperationResult:
        if isinstance(operation, SetData) and operation.path == znodes.CONTROLLER_EPOCH:
            controller = server.find(znodes.CONTROLLER)
            if controller is None or controller.owner != session:
                reach()
        return write(server, session, operation, now_ms, changes)

    return planted


# R8 -----------------------------------------------------------------------------------------------


def _is_callback(trigger: Trigger) -> bool:
    return not isinstance(trigger, _OF_ROLE)


def _resign_later(
    resign: Callable[[Controller, str], None],
) -> Callable[[Controller, str], None]:
    """A controller that resigns first handles what was queued before. Its writes are not guarded:
    when the race was found, those of Kafka were not."""

    def planted(controller: Controller, why: str) -> None:
        if controller.is_active and any(map(_is_callback, controller.triggers)):
            reach()
            controller.context.epoch_version = ANY_VERSION
            if Expire() in controller.triggers:
                controller.triggers.remove(Expire())
            controller.triggers.append(Expire())
        else:
            resign(controller, why)

    return planted


def _keep_queue(end_term: Callable[[Fold], None]) -> Callable[[Fold], None]:
    """At the end of a session, what is queued stays, and so does the event that is handled."""

    def planted(fold: Fold) -> None:
        controller = fold.controller
        running = [] if fold._trigger is None or fold._procedure is None else [fold._trigger]
        triggers = [*running, *controller.triggers]
        callbacks = [one for one in triggers if _is_callback(one)]
        if not controller.is_active or not callbacks or fold._paused is not None:
            end_term(fold)
            return
        reach()
        if fold._procedure is not None:
            break_off(fold._procedure)
            fold._procedure = fold._wait = None
        controller.triggers.clear()
        hand_back = [one for one in triggers if isinstance(one, HandBack)]
        controller.triggers.extend([*callbacks, Expire(), *hand_back])
        controller.context.epoch_version = ANY_VERSION

    return planted


# R13 ----------------------------------------------------------------------------------------------

LoadContext = Callable[[Controller], Awaitable[list[Partition]]]


def _handle_events_first(load_context: LoadContext) -> LoadContext:
    """Events that are queued when a failover loads the context are handled on an empty one."""

    async def planted(controller: Controller) -> list[Partition]:
        early = [one for one in controller.triggers if _is_callback(one)]
        for trigger in early:
            controller.triggers.remove(trigger)
        for trigger in early:
            reach()
            await process(controller, trigger)
        return await load_context(controller)

    return planted


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda original: value


DEFECTS: Final = (
    Defect(
        id="R5",
        source="KAFKA-6082",
        planted="Writes are not guarded by the version of /controller_epoch.",
        needs="A controller that was deposed writes to ZooKeeper before it learns that.",
        invariants=(
            "deposed-write-nothing",
            "state-carries-epoch",
            "leader-epochs-forward",
            "one-leader-per-epoch",
            "partitions-kept",
            "isr-within-assignment",
        ),
        replacements=(Replacement("replay.world.zookeeper:ZooKeeper._write", _without_guard),),
        directed=generic_with(
            SlowDisk(5000, _FIRST, 1500, 5000),
            CreateTopic(5100, "clicks", ((1, 2, 3),)),
            DeleteControllerZnode(5200),
        ),
    ),
    Defect(
        id="R6",
        source="KAFKA-6082 (review)",
        planted="The controller creates /controller, then reads /controller_epoch and raises it.",
        needs="The znode is deleted between the two writes.",
        invariants=("epoch-raised-by-owner", "controller-active"),
        replacements=(
            Replacement(
                "controller.core.procedures.role.controller_election:_take_role",
                _always(_take_role_in_two_steps),
            ),
            Replacement("replay.world.zookeeper:ZooKeeper._write", _note_owner),
        ),
        directed=generic_with(
            DeleteControllerZnode(6000),
            DeleteControllerZnode(6011),
            HoldLink(6012, _FIRST, "zookeeper", 300),
        ),
    ),
    Defect(
        id="R8",
        source="KAFKA-4447",
        planted="A controller that resigns handles queued events first, with unguarded writes.",
        needs="Events are queued when a controller learns that it lost the role.",
        invariants=("deposed-write-nothing", "state-carries-epoch", "leader-epochs-forward"),
        replacements=(
            Replacement(
                "controller.core.procedures.role.controller_election:resign", _resign_later
            ),
            Replacement("controller.core.fold:Fold._end_term", _keep_queue),
        ),
        directed=generic_with(
            CrashBroker(5000, 2, False, 3000),
            SlowDisk(15600, _FIRST, 30, 3000),
            DeleteControllerZnode(15618),
        ),
    ),
    Defect(
        id="R13",
        source="KAFKA-1134, KAFKA-4442",
        planted="Events that are queued during a failover are handled before the context is "
        "loaded.",
        needs="Events are queued when a failover begins to load the context.",
        invariants=("requests-kept", "deletions-kept"),
        replacements=(
            Replacement(
                "controller.core.procedures.role.failover:load_context", _handle_events_first
            ),
        ),
        directed=generic_with(
            SlowDisk(5000, _SECOND, 500, 20000),
            KillController(5000, _FIRST, NONE),
            Reassign(14500, (Target("orders", 0, (2, 3, 4)),), "znode"),
        ),
    ),
)
