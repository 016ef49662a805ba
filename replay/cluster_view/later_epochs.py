"""Partitions whose state was written with a later controller epoch than the controller has.

A controller in ZooKeeper mode neither elects a leader for such a partition, nor takes a lost
replica out of its ISR (KB 4.4). After a rollback from KRaft, partitions can have such states
(KAFKA-20488).
"""

from collections.abc import Iterable, Sequence

from controller.core.values import counted
from replay.cluster_view.views import ClusterView, PartitionView
from replay.description.phrases import first_few


def with_later_epoch(partitions: Iterable[PartitionView], epoch: int) -> list[PartitionView]:
    """The partitions whose state has a controller epoch above this one."""
    return [one for one in partitions if one.controller_epoch > epoch]


def left_unchanged(
    cluster: ClusterView, partitions: Iterable[PartitionView] | None = None
) -> list[PartitionView]:
    """The partitions among these (None: all) that the present controller leaves unchanged, because
    their state has a later controller epoch. Partitions that are being deleted do not count, and
    none does if the controller or its epoch is not known."""
    controller = cluster.controller
    if controller.is_kraft or not controller.epoch:
        return []
    asked = cluster.partitions() if partitions is None else partitions
    return [one for one in with_later_epoch(asked, controller.epoch) if one.status != "deleting"]


def why_unchanged(cluster: ClusterView, found: Sequence[PartitionView]) -> str:
    """A clause: why the controller leaves these partitions unchanged, and what to do."""
    highest = max(one.controller_epoch for one in found)
    return (
        f"controller epoch {highest} in the state is above {cluster.controller.epoch}, the "
        "controller's own, so that the controller neither elects a leader nor takes a lost replica "
        f"out of the ISR (KAFKA-20488): {raise_epoch(highest)}"
    )


def later_epochs(cluster: ClusterView) -> str:
    """A sentence about all partitions that the controller leaves unchanged; "" for none."""
    found = left_unchanged(cluster)
    if not found:
        return ""
    names = first_few((one.name for one in found), ", ")
    return (
        f"The controller leaves {counted(len(found), 'partition')} unchanged ({names}): "
        f"{why_unchanged(cluster, found)}."
    )


def raise_epoch(least: int) -> str:
    """The commands for `zookeeper-shell.sh` after which the next controller has an epoch above this
    one."""
    return (
        f"`set /controller_epoch {least}`, then `delete /controller`, so that the next controller "
        f"has {least + 1}; in a rollback after all KRaft controllers are stopped"
    )
