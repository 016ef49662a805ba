"""What a version's own commands need of a ZooKeeper, whichever kind of log it is made from."""

from typing import Protocol

from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import WatchFired
from replay.world.outcomes import ZooKeeperOutcome
from replay.world.tree import Znode


class OwnZooKeeper(Protocol):
    """Who carries out what the version asks of ZooKeeper, in the controller's `session`."""

    session: int

    def find(self, path: str) -> Znode | None:
        """A znode, None if it is not there."""

    def watch(self, command: ZooKeeperCommand) -> None:
        """Take in what a command asks to be told of, whoever answers it."""

    def carry_out(
        self, id: CommandId, command: ZooKeeperCommand, now_ms: int
    ) -> tuple[list[ZooKeeperOutcome], list[WatchFired]]:
        """Do what is asked; its outcomes, and the watches that fire before them."""
