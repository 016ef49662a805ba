"""The input and the findings of the rules of a migration."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.releases import OLDEST, Release
from controller.core.znodes import ControllerZnode, Migration
from replay.cluster_view.views import ClusterView
from replay.health.evaluate import PartitionHealth, State, evaluate
from replay.names import partition_name
from replay.parsed_znodes import kraft_controller
from replay.znode_tree.tree import Znode
from replay.znode_view import ZnodeView

Level = Literal["ok", "warning", "error"]


class MigrationFinding(Struct, frozen=True, kw_only=True):
    """A finding of one rule. `where` names the znodes, partitions and brokers; `advice` says what
    to do about a problem."""

    check: str
    level: Level
    text: str
    where: tuple[str, ...] = ()
    advice: str = ""


class MigratingBroker(Struct, frozen=True, kw_only=True):
    """A running broker: its release of Kafka, for example (3, 9), and its settings by key. `fault`
    says why they are unknown, or is empty."""

    broker: int
    release: Release = OLDEST
    settings: Mapping[str, str] = {}
    fault: str = ""


class MigratingCluster:
    """The cluster that the rules judge.

    `view` are its znodes; None for the log of a daemon, which lacks those that the daemon does not
    read. `brokers` are the responses of running brokers; None if they were not asked.
    """

    def __init__(
        self,
        cluster: ClusterView,
        view: ZnodeView | None,
        brokers: Sequence[MigratingBroker] | None = None,
    ) -> None:
        self.cluster = cluster
        self.view = view
        self.brokers = brokers

    def find(self, path: str) -> Znode | None:
        """A znode; None if it does not exist, and for the log of a daemon."""
        return None if self.view is None else self.view.find(path)

    @cached_property
    def epoch(self) -> int | None:
        """The epoch in /controller_epoch; None if it is unknown."""
        if self.view is None:
            return self.cluster.controller.epoch or None
        found = self.view.find(znodes.CONTROLLER_EPOCH)
        try:
            return None if found is None else znodes.read_controller_epoch(found.data)
        except ZnodeError:
            return None

    @cached_property
    def controller(self) -> ControllerZnode | None:
        """The content of /controller; None if it does not exist or cannot be read."""
        found = self.find(znodes.CONTROLLER)
        return None if found is None else znodes.read_controller(found.data)

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft controller has the role."""
        found = self.find(znodes.CONTROLLER)
        return found is not None and kraft_controller(found.data) is not None

    @cached_property
    def migration(self) -> Migration | None:
        """The content of /migration; None if it does not exist or cannot be read."""
        found = self.find(znodes.MIGRATION)
        try:
            return None if found is None else znodes.read_migration(found.data)
        except ZnodeError:
            return None

    @property
    def answering(self) -> list[MigratingBroker]:
        """The brokers whose settings are known."""
        return [one for one in self.brokers or () if not one.fault]

    @cached_property
    def partitions(self) -> list[PartitionHealth]:
        """The health of all partitions."""
        return evaluate(self.cluster).partitions

    def in_state(self, state: State) -> tuple[str, ...]:
        """The names of the partitions in a state."""
        return tuple(
            partition_name(one.topic, one.partition)
            for one in self.partitions
            if state in one.states
        )


def brokers_named(ids: Sequence[int]) -> tuple[str, ...]:
    """Brokers as findings name them."""
    return tuple(f"broker {one}" for one in ids)
