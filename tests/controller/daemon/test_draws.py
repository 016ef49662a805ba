import pytest

from controller.daemon.draws import is_reserved


@pytest.mark.parametrize(
    ("topic_id", "reserved"),
    [
        (bytes(16), True),
        (bytes(15) + b"\x01", True),
        (bytes(15) + b"\x02", False),
        # "-" is the 63rd letter: the first six bits are 111110.
        (bytes([0b11111000]) + bytes(15), True),
        (bytes([0b11111011]) + bytes(15), True),
        (bytes([0b11111100]) + bytes(15), False),
    ],
)
def test_reserved_topic_ids_match_kafka(topic_id: bytes, reserved: bool) -> None:
    assert is_reserved(topic_id) == reserved
