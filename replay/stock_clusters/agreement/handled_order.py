"""In which order a controller handled requests that waited together."""

from typing import Final

from msgspec import Struct


class HandledOrder(Struct, frozen=True, gc=False):
    """When a request was answered, and when it came, as the request log has it: that stamps a line
    some time after the answer, and takes the whole time of the request off.

    Who waits in one queue is answered in the order of coming. So of two requests those moments tell
    which came first that lie further apart.
    """

    answered_ms: int
    came_ms: int

    def __lt__(self, other: "HandledOrder") -> bool:
        answered, came = self.answered_ms - other.answered_ms, self.came_ms - other.came_ms
        return (came if abs(came) > abs(answered) else answered or came) < 0


NEVER: Final = HandledOrder(0, 0)
"""Of what is no request."""
