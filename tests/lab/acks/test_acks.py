"""The scenes of `make demo-acks`: what clients see when a leader dies, with refold as the
controller of stock brokers (docs/acknowledgements.md)."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.lab.shared_cluster import shared_cluster
from tools.demo.acks import committed_offset, leader_killed, only_replica
from tools.demo.acks.clients import BROKER_CONFIG
from tools.demo.acks.leader_killed import CAUGHT_UP, LAGGING, Level
from tools.demo.stage import BROKERS, Stage
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.ci, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def acks_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("cluster")
    with shared_cluster(folder, BROKERS, config=BROKER_CONFIG) as lab:
        yield lab


@pytest.fixture
async def stage(acks_lab: Lab, tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(acks_lab, tmp_path) as stage:
        await stage.connect()
        await stage.take_over()
        yield stage
        await stage.hand_back()


async def test_consumer_stops_at_the_committed_offset_and_continues_there(stage: Stage) -> None:
    """The example of the article: offset 2 is committed, offset 3 is on the leader alone."""
    seen = await committed_offset.play(stage)
    committed = [(0, "record 0"), (1, "record 1"), (2, "record 2")]
    assert (seen.committed, seen.ends) == (2, {1: 4, 2: 3, 3: 3})
    assert seen.acknowledged_at == 3
    assert seen.read_before == committed
    assert seen.read == seen.log == [*committed, (3, "record 4")]
    assert not list(seen.faults())


async def test_records_are_lost_and_duplicated_as_acks_promises(stage: Stage) -> None:
    seen = await leader_killed.play(stage)
    for level in (Level("all"), Level("all", idempotent=True)):
        assert [seen.row(level, one).lost for one in (CAUGHT_UP, LAGGING)] == [0, 0]
    assert seen.row(Level(0), LAGGING).lost > 0
    assert seen.row(Level(1), LAGGING).lost > 0
    assert seen.row(Level("all"), CAUGHT_UP).duplicated > 0
    assert seen.row(Level("all", idempotent=True), CAUGHT_UP).duplicated == 0
    assert seen.read
    assert not seen.inconsistent
    assert not list(seen.faults())


async def test_only_in_sync_replica_is_waited_for_or_its_records_are_lost(stage: Stage) -> None:
    outcomes = (await only_replica.play(stage)).outcomes
    clean, unclean = outcomes[only_replica.CLEAN], outcomes[only_replica.UNCLEAN]
    assert clean.leader == -1
    assert clean.refused
    assert not clean.lost
    assert not clean.differing
    assert unclean.leader == only_replica.OUTSIDE
    assert unclean.lost == {f"alone {number}" for number in range(only_replica.ALONE)}
    assert unclean.before[only_replica.SHARED] == "alone 0"
    assert unclean.after[only_replica.SHARED] == "later 0"
