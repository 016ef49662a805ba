"""Reads an ApiVersions request by hand, so that the response does not depend on fields of later
versions."""

import re
from typing import Final, NamedTuple

from controller.wire.client_requests import MalformedRequest, RequestHead, read_header
from controller.wire.reading import UNREADABLE, after_tags, string_length

API_VERSIONS: Final = 18
FIRST: Final = 0
LAST: Final = 4

_FIRST_FLEXIBLE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")


class ApiVersionsRequest(NamedTuple):
    """`is_known`: whether the version is supported; of other versions only the header is read.
    `is_valid`: whether the client's software names are valid by KIP-511."""

    client_id: str
    is_known: bool
    is_valid: bool


def read_api_versions(head: RequestHead, frame: bytes) -> ApiVersionsRequest:
    """Read a whole request; bytes after its body are ignored. Raises `MalformedRequest`."""
    flexible = head.version >= _FIRST_FLEXIBLE
    client_id, at = read_header(frame, flexible=flexible)
    if not FIRST <= head.version <= LAST:
        return ApiVersionsRequest(client_id, is_known=False, is_valid=True)
    if not flexible:
        return ApiVersionsRequest(client_id, is_known=True, is_valid=True)
    try:
        name, at = _read_string(frame, at)
        version, at = _read_string(frame, at)
        at = after_tags(frame, at)
    except UNREADABLE as fault:
        raise MalformedRequest(f"an ApiVersions request cannot be read: {fault!r}") from fault
    if at > len(frame):
        raise MalformedRequest("an ApiVersions request ends early")
    is_valid = bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))
    return ApiVersionsRequest(client_id, is_known=True, is_valid=is_valid)


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    length, at = string_length(data, at, flexible=True)
    return data[at : at + length].decode(errors="replace"), at + length
