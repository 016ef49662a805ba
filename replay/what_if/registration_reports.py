"""The watch events that report changes of registrations, before the controller reads them."""

from controller.core import znodes


class RegistrationReports:
    """For each znode of registrations, the last watch event about it: its number and time."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}

    def note(self, seq: int, wall_ns: int, path: str, change: str) -> None:
        """A watch event reported a znode: what is read because of it happened then."""
        # A broker writes the data of its registration again when its listeners are open.
        if change != "data":
            self._last[path] = (seq, wall_ns)

    def first_of(self, broker: int) -> tuple[int, int] | None:
        """The watch event that reported the change of a registration that is read now, by the
        broker's znode or by their list; None if there is none."""
        own = self._last.pop(znodes.broker_path(broker), None)
        return own or self._last.get(znodes.BROKER_IDS)

    def clear(self) -> None:
        """The next registrations are read for another reason."""
        self._last.clear()
