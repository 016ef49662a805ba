"""State that can be saved and restored, and the checkpoint of a controller trace.

Without log lines, an event is assumed to be processed as soon as it can have been. If the session
then writes something else first, the trace goes back to the checkpoint and lets the event wait.

Each class of a trace names its mutable state in `STATE`. The ZooKeeper view, the log index and the
recorded choices belong to the whole comparison; no checkpoint contains them.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar, Final, TypeVar

from controller.core.triggers import Trigger

State = dict[str, Any]
Item = TypeVar("Item")

_INPUTS_MAX: Final = 50_000


class Checkpointed:
    """An object whose state can be saved and restored in place.

    `STATE` names the attributes. Attributes that are `Checkpointed` save their own state; of others
    a shallow copy is saved, so they hold immutable values or containers of immutable values.
    """

    STATE: ClassVar[tuple[str, ...]] = ()

    def save(self) -> State:
        """A copy of the state; later changes do not affect it."""
        return {name: _saved_copy(getattr(self, name)) for name in self.STATE}

    def restore(self, state: State) -> None:
        """Put a saved state back. Each saved state can be restored once."""
        for name, value in state.items():
            part = getattr(self, name)
            if isinstance(part, Checkpointed):
                part.restore(value)
            else:
                setattr(self, name, value)


def _saved_copy(value: Any) -> Any:
    return value.save() if isinstance(value, Checkpointed) else copy(value)


class AppendOnly(list[Item], Checkpointed):
    """A list to which values are only appended. Its saved state is its length: a copy at each
    checkpoint would take the longer, the longer the log is."""

    def save(self) -> State:
        return {"length": len(self)}

    def restore(self, state: State) -> None:
        del self[state["length"] :]


class Checkpoint:
    """The state before `event` was begun, and the inputs since then, in order."""

    def __init__(self, event: Trigger, state: State) -> None:
        self.event = event
        self.state = state
        self.inputs: list[Callable[[], None]] = []

    def note(self, repeat: Callable[[], None]) -> bool:
        """Add an input. False if there are very many: then the event has been processed, and the
        controller had nothing to write."""
        self.inputs.append(repeat)
        return len(self.inputs) <= _INPUTS_MAX
