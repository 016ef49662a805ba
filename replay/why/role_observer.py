"""Observes how a daemon takes the controller role, and from whom, or who has taken it."""

from controller.core import znodes
from controller.core.commands import CommandId, Issued, ReadZnodes, WriteAtomically
from controller.core.errors import ZnodeError
from controller.core.events import ZnodesRead
from controller.core.operations import OK, Create, Delete
from replay.checkpoint import Checkpointed
from replay.cluster_view.views import NO_BROKER
from replay.names import command_name


class RoleObserver(Checkpointed):
    """Knows the last holder of /controller that the daemon has read, and its last write there."""

    STATE = ("_reads", "_holder", "_replaced", "_write")

    def __init__(self) -> None:
        self._reads: dict[CommandId, int] = {}
        self._holder = NO_BROKER
        self._replaced = NO_BROKER
        self._write = ""

    def issues(self, issued: Issued) -> None:
        """A command is issued."""
        match issued.command:
            case ReadZnodes(paths=paths) if znodes.CONTROLLER in paths:
                self._reads = {issued.id: paths.index(znodes.CONTROLLER)}
            case WriteAtomically(operations=operations):
                created = [one.path for one in operations if isinstance(one, Create)]
                if znodes.CONTROLLER in created:
                    deletes = any(isinstance(one, Delete) for one in operations)
                    self._write = command_name(issued.id)
                    self._replaced = self._holder if deletes else NO_BROKER
            case _:
                pass

    def on_read(self, outcome: ZnodesRead) -> None:
        """The outcome of a read."""
        place = self._reads.get(outcome.command)
        if place is None or not 0 <= place - outcome.offset < len(outcome.errors):
            return
        place -= outcome.offset
        self._holder = NO_BROKER
        if outcome.errors[place] == OK:
            try:
                found = znodes.read_controller(outcome.data[place])
            except ZnodeError:
                found = None
            self._holder = found.brokerid if found is not None else NO_BROKER

    def fields(self, code: str, daemon: int) -> dict[str, object]:
        """The fields of a change of the role."""
        if code == "elected":
            return {"command": self._write, "other": self._replaced}
        is_known = code == "resigned" and self._holder != daemon
        return {"other": self._holder if is_known else NO_BROKER}
