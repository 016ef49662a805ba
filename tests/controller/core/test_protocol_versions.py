"""inter.broker.protocol.version: its spellings, and what follows from it."""

import pytest

from controller.core.errors import ConfigurationError
from controller.core.protocol_versions import ProtocolVersion


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2.8-IV0", "2.8-IV0"),
        ("2.8", "2.8-IV1"),
        ("2.8.1", "2.8-IV1"),
        ("2.8.1.2", "2.8-IV1"),
    ],
)
def test_release_means_its_last_protocol_version(text: str, name: str) -> None:
    assert ProtocolVersion(text).name == name


@pytest.mark.parametrize("text", ["", "2", "2.3", "4.0", "2.8-IV7", "2.8.1-IV1"])
def test_unknown_protocol_version_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"2\.4-IV0 to 3\.9-IV0"):
        ProtocolVersion(text)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("2.4-IV0", (3, 5, 1)),
        ("2.4-IV1", (4, 6, 2)),
        ("2.8-IV1", (5, 7, 3)),
        ("3.2-IV0", (6, 7, 3)),
        ("3.9", (7, 8, 4)),
    ],
)
def test_requests_have_the_latest_version_that_the_protocol_permits(
    text: str, versions: tuple[int, ...]
) -> None:
    """The order is LeaderAndIsr, UpdateMetadata and StopReplica."""
    found = ProtocolVersion(text)
    assert (found.leader_and_isr, found.update_metadata, found.stop_replica) == versions


@pytest.mark.parametrize(
    ("text", "registration", "side"),
    [
        ("2.6", 4, ""),
        ("2.6", 5, "2.7 or later"),
        ("2.7-IV0", 4, "below 2.7"),
        ("2.7-IV0", 5, ""),
    ],
)
def test_registration_shows_on_which_side_of_2_7_a_broker_is(
    text: str, registration: int, side: str
) -> None:
    assert ProtocolVersion(text).contradicted_by(registration) == side
