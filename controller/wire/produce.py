"""Reads from a Produce request whether it has a response, which forwarding requires."""

from struct import unpack_from
from typing import Final

from controller.wire.client_requests import HEAD_BYTES, MalformedRequest
from controller.wire.reading import UNREADABLE, after_tags, unsigned_varint

PRODUCE: Final = 0

_FIRST_WITH_TRANSACTIONAL_ID: Final = 3
_FIRST_FLEXIBLE: Final = 9


def wants_response(version: int, beginning: bytes) -> bool:
    """False for acks=0, which brokers do not answer. `beginning` is the first part of the request.

    Raises `MalformedRequest` if that ends before the acks.
    """
    try:
        at = _after_nullable_string(beginning, HEAD_BYTES)  # client id
        if version >= _FIRST_FLEXIBLE:
            length, at = unsigned_varint(beginning, after_tags(beginning, at))
            at += max(length - 1, 0)
        elif version >= _FIRST_WITH_TRANSACTIONAL_ID:
            at = _after_nullable_string(beginning, at)
        (acks,) = unpack_from(">h", beginning, at)
    except UNREADABLE as fault:
        raise MalformedRequest("a Produce request ends before its acks") from fault
    return bool(acks)


def _after_nullable_string(data: bytes, at: int) -> int:
    (length,) = unpack_from(">h", data, at)
    return at + 2 + max(int(length), 0)
