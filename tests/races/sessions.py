"""Races of ZooKeeper sessions: an owner that does not recognise its ephemeral znode, or hangs."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from controller.core.controller import Controller
from controller.core.fold import Fold
from controller.core.outcomes import TERM_END
from controller.core.triggers import Expire, Reelect, Startup
from replay.world.broker.registration import Registration
from replay.world.inputs import (
    NONE,
    DelayEphemeralDeletion,
    ExpireSession,
    KillController,
    LoseReply,
)
from replay.world.requests import OperationResult
from replay.world.scheduler import SECOND
from tests.races.defect import Defect, generic_with
from tests.races.planting import Replacement, reach

_FIRST: Final = "refold 100"
_SECOND: Final = "refold 101"

Read = Callable[[Registration, tuple[OperationResult, ...]], None]

_NEVER_GIVES_UP: Final = Replacement(
    "replay.world.broker.run:BrokerRun._give_up", lambda original: lambda run, expirations: None
)
"""No supervisor starts a broker again that is not registered."""


def _owner(results: tuple[OperationResult, ...]) -> int:
    stat = results[0].stat
    return stat.ephemeral_owner if stat is not None else 0


def _wait_for_own_znode(read: Read) -> Read:
    """Race R1: the znode of a broker is always of an earlier session, whose end must be awaited."""

    def planted(registration: Registration, results: tuple[OperationResult, ...]) -> None:
        if _owner(results) == registration._session:
            reach()
            client = registration._requests._client
            assert client is not None
            client._scheduler.after(SECOND, registration._create)
        else:
            read(registration, results)

    return planted


def _own_znode_is_foreign(read: Read) -> Read:
    """Race R2: a znode of the previous session is that of another broker."""

    def planted(registration: Registration, results: tuple[OperationResult, ...]) -> None:
        owner = _owner(results)
        if owner and owner == registration._registered_in != registration._session:
            reach()
            registration._on_conflict()
        else:
            read(registration, results)

    return planted


def _note_unknown_owner(read: Read) -> Read:
    """Race R3: the broker knows of no successful create in the session that owns the znode."""

    def planted(registration: Registration, results: tuple[OperationResult, ...]) -> None:
        owner = _owner(results)
        before = registration._registered_in
        if before and owner and owner not in (before, registration._session):
            reach()  # At the start of a broker, the znode may be that of its last run.
        read(registration, results)

    return planted


# R14 ----------------------------------------------------------------------------------------------


def _hang_at_expiry(end_term: Callable[[Fold], None]) -> Callable[[Fold], None]:
    """A start-up that waits for a reply of the session that has ended waits for ever."""

    def planted(fold: Fold) -> None:
        if fold._procedure is not None and isinstance(fold._trigger, Startup | Reelect):
            reach()
            fold._wait = TERM_END
            fold.controller.enqueue(Expire())
        else:
            end_term(fold)

    return planted


# R15 ----------------------------------------------------------------------------------------------

HasRole = Callable[[Controller, bytes], Awaitable[bool]]


class _Never:
    """A deviation that does not apply."""

    def applies(self, configuration: object) -> bool:
        return False


def _forget_role(has_role: HasRole) -> HasRole:
    """After a lost reply the controller reads /controller as at the start, and finds its id."""

    async def planted(controller: Controller, raised: bytes) -> bool:
        if await has_role(controller, raised):
            reach()
        return False

    return planted


def _never(_: Any) -> _Never:
    return _Never()


DEFECTS: Final = (
    Defect(
        id="R1",
        source="KAFKA-1387, ZOOKEEPER-1740",
        planted="A broker that finds its znode waits until the session that owns it has ended.",
        needs="The reply to the creation of the znode is lost, or two sessions follow each other "
        "before the first registration is answered.",
        invariants=("partitions-led", "isrs-full", "metadata-current"),
        replacements=(
            Replacement(
                "replay.world.broker.registration:Registration._check_owner", _wait_for_own_znode
            ),
            _NEVER_GIVES_UP,
        ),
        directed=generic_with(LoseReply(5000, "broker 2"), ExpireSession(5000, "broker 2")),
    ),
    Defect(
        id="R2",
        source="KAFKA-7165, ZOOKEEPER-2985",
        planted="A broker takes the znode of its previous session for that of another broker.",
        needs="The znode still exists when the next session begins.",
        invariants=("isrs-full", "partitions-led"),
        replacements=(
            Replacement(
                "replay.world.broker.registration:Registration._check_owner", _own_znode_is_foreign
            ),
            _NEVER_GIVES_UP,
        ),
        directed=generic_with(
            DelayEphemeralDeletion(4000, "broker 2", 30000, 20000), ExpireSession(5000, "broker 2")
        ),
    ),
    Defect(
        id="R3",
        source="KAFKA-14845 (open)",
        planted="A broker does not know the session in which its znode was created, and no "
        "supervisor starts it again.",
        needs="The reply to the creation of the znode is lost, and the session ends before the "
        "znode is deleted.",
        invariants=("isrs-full", "partitions-led"),
        replacements=(
            Replacement(
                "replay.world.broker.registration:Registration._check_owner", _note_unknown_owner
            ),
            _NEVER_GIVES_UP,
        ),
        directed=generic_with(
            LoseReply(5000, "broker 2"),
            ExpireSession(5000, "broker 2"),
            DelayEphemeralDeletion(5600, "broker 2", 30000, 20000),
            ExpireSession(5650, "broker 2"),
        ),
    ),
    Defect(
        id="R14",
        source="KAFKA-4229, KAFKA-4360, KAFKA-6879",
        planted="A start-up does not end with its session.",
        needs="The session expires while the controller is elected or loads its context.",
        invariants=("controller-active", "procedures-ended"),
        replacements=(Replacement("controller.core.fold:Fold._end_term", _hang_at_expiry),),
        directed=generic_with(KillController(5000, _FIRST, NONE), ExpireSession(10020, _SECOND)),
    ),
    Defect(
        id="R15",
        source="KAFKA-13407 (open)",
        planted="A controller that finds its id in /controller does not act.",
        needs="The reply to the election of a controller is lost.",
        invariants=("controller-active",),
        replacements=(
            Replacement(
                "controller.core.procedures.role.controller_election:_has_role", _forget_role
            ),
            Replacement("controller.core.deviations:ROLE_BY_SESSION", _never),
        ),
        directed=generic_with(KillController(5000, _FIRST, NONE), LoseReply(10000, _SECOND)),
    ),
)
