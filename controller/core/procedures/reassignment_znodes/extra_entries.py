"""Entries of /admin/reassign_partitions_extra that replace a reassignment under way (KB 14.3)."""

from collections.abc import Iterable

from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.operations import OK
from controller.core.state import Partition
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA, Name, read_entries
from controller.core.zookeeper_io import read_znodes

_RULE = "extra reassignments: which rollbacks do they need"


async def replaced_by_entries(controller: Controller, partitions: Iterable[Partition]) -> set[Name]:
    """Select the partitions for which the znode requests another target than their reassignment
    under way has: they are rolled back for the entry."""
    records = controller.context.reassignments
    targets = {one.key: records[one].replicas for one in partitions if one in records}
    if not targets:
        return set()
    found = await read_znodes(controller, [REASSIGN_PARTITIONS_EXTRA], _RULE)
    if found.errors[0] != OK:
        return set()
    try:
        entries = read_entries(REASSIGN_PARTITIONS_EXTRA, found.data[0]).entries
    except ZnodeError:
        # The procedure of the znode reports and deletes it.
        return set()
    return {
        name
        for name, target in targets.items()
        if name in entries and entries[name].replicas != target
    }
