"""The stored form of events, commands and reasons."""

from collections.abc import Callable

import msgspec
import pytest

from controller.core.canonical import decode_command, decode_event, decode_reason, digest


@pytest.mark.parametrize("decode", [decode_event, decode_command, decode_reason])
@pytest.mark.parametrize(
    "data", [b"", b"\x91\xa1\xff", b"\x92\xa1\xff\x90", b"\x91" * 100_000 + b"\x90"]
)
def test_bytes_that_cannot_be_decoded_are_a_decoding_error(
    decode: Callable[[bytes], object], data: bytes
) -> None:
    """Neither text that is not UTF-8 nor deep nesting is another error."""
    with pytest.raises(msgspec.DecodeError):
        decode(data)


def test_digest_of_chunks_is_that_of_the_whole_body() -> None:
    assert digest(b"a", b"", b"bc") == digest(b"abc")
