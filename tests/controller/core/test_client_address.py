"""Addresses of clients, spelt as in Kafka's ACLs."""

import pytest

from controller.core.client_address import canonical_address


@pytest.mark.parametrize(
    ("found", "spelt"),
    [
        ("10.0.0.1", "10.0.0.1"),
        # An IPv4 client of a socket that also accepts IPv6.
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::00ab:0", "2001:db8:0:0:0:0:ab:0"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("a disconnected client", "a disconnected client"),
    ],
)
def test_address_is_spelt_as_by_java(found: str, spelt: str) -> None:
    assert canonical_address(found) == spelt
