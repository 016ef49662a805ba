"""The names that a log has, and errors about names that it does not have."""

from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.listing.known_names import KnownNames
from replay.logs.open_log import open_log

BOUNCED = Path(__file__).parents[2] / "incidents/bounced-broker"


@pytest.fixture(scope="module", params=[True, False], ids=["folded", "records only"])
def known(request: pytest.FixtureRequest) -> KnownNames:
    """The names of a log in which only decisions name broker 9."""
    with open_log(BOUNCED) as log:
        return KnownNames(log.reader, log if request.param else None)


def test_broker_that_only_a_decision_names_is_known(known: KnownNames) -> None:
    known.require("broker", "broker 9")
    assert known.brokers == {f"broker {one}" for one in (1, 2, 3, 9, 1000)}


def test_topics_and_partitions_of_events_are_known(known: KnownNames) -> None:
    known.require("topic", "moved")
    known.require("partition", "moved-0")
    assert "moved" in known.topics
    assert "moved-0" in known.partitions


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        ("broker", "broker 17", "the log has no broker 17; brokers: 1,2,3,9,1000"),
        ("topic", "move", "the log has no topic move; did you mean moved"),
        ("partition", "moved-7", "the log has no partition moved-7; topic moved has 0"),
        ("subject", "move", "the log has no subject move; did you mean moved"),
    ],
)
def test_unknown_name_is_an_error_with_those_that_exist(
    known: KnownNames, kind: str, name: str, error: str
) -> None:
    with pytest.raises(ReplayError, match=error):
        known.require(kind, name)
