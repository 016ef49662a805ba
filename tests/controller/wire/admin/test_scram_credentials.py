"""The stored form of a user's password in ZooKeeper."""

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
"""The credential of the password "pencil" in the example of RFC 7677."""


def test_example_of_the_rfc_is_reproduced() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    assert credential_of(1, salt, salted, 4096) == RFC_7677


def test_each_mechanism_uses_its_hash() -> None:
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 4096)
    parts = dict(one.split("=", 1) for one in credential_of(2, b"salt", salted, 4096).split(","))
    assert {key: len(b64decode(parts[key])) for key in ("stored_key", "server_key")} == {
        "stored_key": 64,
        "server_key": 64,
    }


@pytest.mark.parametrize(("mechanism", "salted"), [(0, b"x"), (3, b"x"), (-1, b"x"), (1, b"")])
def test_unusable_input_has_no_credential(mechanism: int, salted: bytes) -> None:
    assert credential_of(mechanism, b"salt", salted, 4096) == ""
