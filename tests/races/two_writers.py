"""Races of two writers of one znode: a client writes it while the controller writes it, too."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

from controller.core.controller import Controller
from controller.core.operations import BAD_VERSION
from controller.core.values import ANY_VERSION
from controller.core.znodes import Entries, Name
from replay.world.inputs import CancelReassignment, EndCancellation, Reassign, SlowDisk, Target
from tests.races.defect import Defect, generic_with
from tests.races.planting import Replacement, reach

_ZNODE: Final = "controller.core.procedures.reassignment_znodes.entries"
_SOURCE: Final = "KIP-236"
_TO_4: Final = (Target("orders", 0, (1, 2, 4)),)


def _overwrites_other_writers(original: Any) -> Callable[..., Awaitable[int]]:
    async def put_back(controller: Controller, remaining: Entries, version: int) -> int:
        error: int = await original(controller, remaining, version)
        if error == BAD_VERSION:
            reach()
            error = await original(controller, remaining, ANY_VERSION)
        return error

    return put_back


def _removes_by_name(original: Any) -> Callable[..., Awaitable[None]]:
    """Entries that a cancellation removes before they have begun are looked for by their names."""

    async def remove_entries(controller: Controller, is_done: Any, removes: Any = None) -> None:
        not_begun: Any = inspect.getclosurevars(is_done).nonlocals.get("not_begun")

        def is_named(name: Name, target: tuple[int, ...]) -> bool:
            if name in not_begun and not is_done(name, target):
                reach()
            return name in not_begun

        await original(controller, is_done if not_begun is None else is_named, removes)

    return remove_entries


DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        id="kip-236-two-writers",
        source=_SOURCE,
        planted="The controller writes /admin/reassign_partitions without its version.",
        needs="A client writes the znode between a read and a write of the controller.",
        invariants=("entries-accounted-for", "reassignments-ended", "admin-znodes-gone"),
        replacements=(
            Replacement(f"{_ZNODE}:_write_remaining_entries", _overwrites_other_writers),
        ),
        directed=generic_with(
            Reassign(5_000, _TO_4, "znode"),
            Reassign(5_071, (Target("orders", 1, (2, 3, 4)),), "znode"),
        ),
    ),
    Defect(
        id="kip-236-entry-replaced",
        source=_SOURCE,
        planted="A cancellation removes the entries that have not begun by their partitions, "
        "whatever their replicas are.",
        needs="A client writes another entry of a partition while the controller removes an entry "
        "that was cancelled before it began.",
        invariants=("entries-accounted-for", "requests-kept", "reassignments-ended"),
        replacements=(Replacement(f"{_ZNODE}:remove_entries", _removes_by_name),),
        directed=generic_with(
            SlowDisk(4_900, "refold 100", 30, 9_000),
            Reassign(5_000, _TO_4, "znode"),
            CancelReassignment(5_030, (), "znode"),
            Reassign(5_340, (Target("orders", 0, (1, 3, 4)),), "znode"),
            EndCancellation(15_000),
        ),
    ),
)
