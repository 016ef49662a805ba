"""What Kafka keeps of a user's password, and the znode has."""

import hashlib
from base64 import b64decode

import pytest

from controller.wire.admin.scram_credentials import credential_of

RFC_7677 = (
    "salt=W22ZaJ0SNY7soEsUEjb6gQ==,"
    "stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
    "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,"
    "iterations=4096"
)
"""Of the password "pencil" in the example of RFC 7677."""


def test_the_example_of_the_rfc() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    assert credential_of(1, salt, salted, 4096) == RFC_7677


def test_each_mechanism_has_its_own_hash() -> None:
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 4096)
    parts = dict(one.split("=", 1) for one in credential_of(2, b"salt", salted, 4096).split(","))
    assert {key: len(b64decode(parts[key])) for key in ("stored_key", "server_key")} == {
        "stored_key": 64,
        "server_key": 64,
    }


@pytest.mark.parametrize(("mechanism", "salted"), [(0, b"x"), (3, b"x"), (-1, b"x"), (1, b"")])
def test_of_what_there_is_no_credential(mechanism: int, salted: bytes) -> None:
    assert credential_of(mechanism, b"salt", salted, 4096) == ""
