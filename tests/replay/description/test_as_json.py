"""Values as plain JSON."""

import pytest

from replay.description.as_json import plain_object


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b'{"version":1}', {"version": 1}),
        (b"orders", "orders"),
        (b'{"version":', '{"version":'),
        (b"{v\xce\xba\x07\x9at\n\xaao\xc9!\xfa\xa2\xff", "7b76ceba079a740aaa6fc921faa2ff"),
        (b"\x00\x01", "0001"),
    ],
)
def test_bytes_are_json_or_text_and_otherwise_hex(content: bytes, shown: object) -> None:
    assert plain_object(content) == shown
