"""Observes how a daemon takes the controller role, and from whom, or who has taken it."""

from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import CommandId, Issued, ReadZnodes, WriteAtomically
from controller.core.events import ZnodesRead
from controller.core.operations import OK, Create, Delete
from replay.checkpoint import Checkpointed
from replay.cluster_view.views import NO_BROKER
from replay.names import command_name
from replay.parsed_znodes import kraft_controller


class _Controller(NamedTuple):
    """The content of /controller."""

    id: int
    is_kraft: bool

    @property
    def fields(self) -> dict[str, object]:
        """The fields of a change of the role for the other controller."""
        return {"other": self.id, "is_other_kraft": self.is_kraft}


_NO_CONTROLLER: Final = _Controller(NO_BROKER, False)


class RoleObserver(Checkpointed):
    """Knows the last holder of /controller that the daemon has read, and its last write there."""

    STATE = ("_reads", "_holder", "_replaced", "_write")

    def __init__(self) -> None:
        self._reads: dict[CommandId, int] = {}
        self._holder = self._replaced = _NO_CONTROLLER
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
                    self._replaced = self._holder if deletes else _NO_CONTROLLER
            case _:
                pass

    def on_read(self, outcome: ZnodesRead) -> None:
        """The outcome of a read."""
        place = self._reads.get(outcome.command)
        if place is None or not 0 <= place - outcome.offset < len(outcome.errors):
            return
        place -= outcome.offset
        found = outcome.data[place] if outcome.errors[place] == OK else None
        holder = znodes.read_controller(found)
        self._holder = _NO_CONTROLLER
        if holder is not None:
            self._holder = _Controller(holder.brokerid, kraft_controller(found) is not None)

    def fields(self, code: str, daemon: int) -> dict[str, object]:
        """The fields of a change of the role."""
        if code == "elected":
            return {"command": self._write, **self._replaced.fields}
        is_known = code == "resigned" and self._holder.id != daemon
        return (self._holder if is_known else _NO_CONTROLLER).fields
