"""What an observer of a run may look at: one method for each kind of step."""

from typing import TYPE_CHECKING

from controller.core.commands import Issued
from controller.core.events import Recorded

if TYPE_CHECKING:
    from replay.world.cluster import Cluster
    from replay.world.inputs import Input
    from replay.world.network import Delivery


class Observer:
    """Does nothing; a subclass overrides what it is interested in.

    An observer must not change the world. A cluster has one observer, which may call others.
    """

    def begins(self, cluster: "Cluster") -> None:
        """The cluster was put together; nothing has run."""

    def stepped(self) -> None:
        """One scheduled action has run."""

    def input_applied(self, one: "Input") -> None:
        """An input takes effect now."""

    def delivered(self, delivery: "Delivery") -> None:
        """A message is about to be handled by its receiver."""

    def run_started(self, process: str) -> None:
        """A controller started: a new fold, a new history."""

    def run_ended(self, process: str, reason: str) -> None:
        """A controller ended: "crash", "kill", "broker", or the reason of its Stop."""

    def folded(self, process: str, recorded: Recorded, issued: list[Issued]) -> None:
        """A controller has folded an event; its commands are not carried out yet."""

    def carried_out(self, process: str, issued: Issued) -> None:
        """A controller starts to carry out a command. A command that is dropped because its term
        has ended is not reported."""

    def acted(self, process: str, act: int, what: str) -> None:
        """A write of a controller reached ZooKeeper, or a request was sent to a broker. Acts are
        numbered from 1, over all runs of a process."""

    def quiet_begins(self) -> None:
        """All faults have ended."""
