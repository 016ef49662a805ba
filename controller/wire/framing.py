"""Request and response headers, and encoded requests."""

from dataclasses import dataclass
from struct import Struct, unpack_from

from controller.wire.apis import Api
from controller.wire.errors import MalformedResponse
from controller.wire.primitives import legacy_string
from controller.wire.reading import UNREADABLE, after_tags

_request_header = Struct(">hhi").pack


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """An encoded request for one broker: `head` is specific to the broker, `rest` may be shared by
    all.

    They are separate so that the shared part is never copied.
    """

    api: Api
    version: int
    head: bytes
    rest: bytes

    def header(self, correlation_id: int, client_id: str) -> bytes:
        """The request header: version 2 for flexible versions, otherwise 1."""
        fixed = _request_header(self.api.key, self.version, correlation_id)
        return fixed + legacy_string(client_id) + self.api.layout(self.version).tags


def read_response_header(frame: bytes, flexible: bool) -> tuple[int, int]:
    """The correlation id of a response, and the position of its body. Raises
    `MalformedResponse`."""
    try:
        (correlation_id,) = unpack_from(">i", frame)
        return correlation_id, after_tags(frame, 4) if flexible else 4
    except UNREADABLE as fault:
        raise MalformedResponse(f"a response of {len(frame)} bytes has no header") from fault
