"""Which lost records are excused: those that Kafka's protocol with ZooKeeper does not keep."""

from collections.abc import Sequence

import pytest

from controller.core import znodes
from controller.core.operations import SetData
from controller.core.values import ANY_VERSION, LeaderAndIsr
from replay.explore.invariants.known_cluster import KnownCluster
from replay.explore.invariants.losses import Losses
from replay.explore.zookeeper_facts import ZooKeeperFacts
from replay.world.scenario import Scenario, TopicSpec
from replay.world.start_state import start_state

NAME = ("orders", 0)
RECORD, OFFSET = 70, 5
REPLICAS = (1, 2, 3)


class _History:
    """A record that the ISR has. Broker 2 may lose it, and may lead afterwards."""

    def __init__(self, *isr: int) -> None:
        self.losses = Losses()
        self.epoch = 1
        self.take_over()
        self.by_controller(*isr)
        self.since = self.losses.next()

    def by_controller(self, *isr: int, kept: Sequence[int] = REPLICAS) -> None:
        self.losses.isr_stored(NAME, self.epoch, isr, kept, by_controller=True)

    def by_leader(self, *isr: int) -> None:
        self.losses.isr_stored(NAME, self.epoch, isr, REPLICAS, by_controller=False)

    def lose(self) -> None:
        self.losses.lost(2, NAME, OFFSET, [RECORD])

    def take_over(self, *, is_kafka: bool = False, is_completed: bool = True) -> None:
        self.losses.controller_elected(is_kafka=is_kafka)
        if is_completed:
            self.losses.controller_loaded()

    def is_excused(self, leader: int = 2, leader_epoch: int = 9) -> bool:
        self.losses.leadership_begun(NAME, leader, leader_epoch)
        return self.losses.may_be_lost(NAME, OFFSET, RECORD, self.since, 1)


def test_loss_by_the_last_member_is_excused() -> None:
    history = _History(2)
    history.lose()
    assert history.is_excused()


@pytest.mark.parametrize(("failed", "is_excused"), [((1, 3), True), ((3,), False)])
def test_loss_is_excused_if_all_other_members_failed(
    failed: tuple[int, ...], is_excused: bool
) -> None:
    history = _History(1, 2, 3)
    history.lose()
    for broker in failed:
        history.losses.failed(broker)
    history.by_controller(2)
    assert history.is_excused() is is_excused


def test_failure_before_a_member_joined_excuses_nothing() -> None:
    history = _History(2)
    history.losses.failed(1)
    history.by_leader(2, 1)
    history.lose()
    assert not history.is_excused()


@pytest.mark.parametrize("joins_first", [True, False])
def test_member_whose_broker_registers_after_it_joined_has_failed(joins_first: bool) -> None:
    history = _History(2)
    if joins_first:
        history.by_leader(2, 1)
        history.losses.registered(1)
    else:
        history.losses.registered(1)
        history.by_leader(2, 1)
    history.lose()
    history.take_over()
    history.by_controller(2)
    assert history.is_excused() is joins_first


def test_member_that_its_leader_removed_need_not_fail() -> None:
    history = _History(1, 2, 3)
    history.lose()
    history.by_leader(1, 2)
    history.losses.failed(1)
    history.by_controller(2)
    assert history.is_excused()


def test_member_that_leaves_the_assignment_need_not_fail() -> None:
    history = _History(1, 2)
    history.lose()
    history.by_controller(2, kept=(2, 3))
    assert history.is_excused()


def test_loss_of_another_broker_excuses_nothing() -> None:
    history = _History(1, 2)
    history.lose()
    history.losses.failed(1)
    assert not history.is_excused(leader=1)


def test_loss_of_another_record_excuses_nothing() -> None:
    history = _History(2)
    history.losses.lost(2, NAME, OFFSET, [RECORD + 1])
    history.losses.lost(2, NAME, OFFSET + 1, [RECORD])
    assert not history.is_excused()


@pytest.mark.parametrize("is_kafka", [True, False])
def test_restart_before_a_failover_is_excused_with_kafka_rules_only(is_kafka: bool) -> None:
    history = _History(1, 2)
    history.lose()
    history.losses.registered(2)
    history.take_over(is_kafka=is_kafka)
    assert history.is_excused() is is_kafka


@pytest.mark.parametrize(("is_kafka", "leader_epoch"), [(True, 1), (False, 1), (True, 2)])
def test_record_in_place_of_one_that_the_restarted_leader_lost_in_the_same_epoch_is_excused(
    is_kafka: bool, leader_epoch: int
) -> None:
    """The other members of the ISR keep the record that the leader has lost."""
    history = _History(1, 2)
    history.losses.leadership_begun(NAME, 2, 1)
    history.lose()
    history.losses.registered(2)
    history.take_over(is_kafka=is_kafka)
    history.losses.leadership_begun(NAME, 2, leader_epoch)
    written = RECORD + 1
    excused = history.losses.may_be_lost(NAME, OFFSET, written, history.losses.next(), 1)
    assert excused is (is_kafka and leader_epoch == 1)


@pytest.mark.parametrize("is_kafka", [True, False])
def test_restart_during_a_failover_is_excused_with_kafka_rules_only(is_kafka: bool) -> None:
    history = _History(1, 2)
    history.lose()
    history.losses.controller_elected(is_kafka=is_kafka)
    history.losses.registered(2)
    history.losses.controller_loaded()
    assert history.is_excused() is is_kafka


@pytest.mark.parametrize("is_before", [True, False])
def test_restart_is_excused_if_the_state_was_written_between_it_and_the_failover(
    is_before: bool,
) -> None:
    history = _History(1, 2, 3)
    history.lose()
    if is_before:
        history.losses.registered(2)
    history.by_leader(1, 2)
    if not is_before:
        history.losses.registered(2)
    history.take_over()
    assert history.is_excused() is is_before


@pytest.mark.parametrize("is_completed", [True, False])
def test_restart_before_an_earlier_failover_is_not_excused(is_completed: bool) -> None:
    history = _History(1, 2)
    history.lose()
    history.losses.registered(2)
    history.take_over(is_completed=is_completed)
    history.take_over()
    assert not history.is_excused()


@pytest.mark.parametrize("is_removed", [True, False])
def test_restart_that_a_controller_can_see_is_not_excused(is_removed: bool) -> None:
    history = _History(1, 2)
    history.lose()
    history.take_over()
    if is_removed:
        history.by_controller(1)
        history.by_leader(1, 2)
    history.losses.registered(2)
    assert not history.is_excused()


def test_removed_member_is_not_excused_by_a_later_failover() -> None:
    history = _History(1, 2)
    history.lose()
    history.by_controller(1)
    history.losses.registered(2)
    history.by_leader(1, 2)
    history.take_over()
    assert not history.is_excused()


@pytest.mark.parametrize("is_before", [True, False])
def test_restart_between_proposal_and_acceptance_is_excused(is_before: bool) -> None:
    history = _History(1)
    if is_before:
        history.losses.isr_proposed(NAME, (1, 2))
    history.lose()
    if not is_before:
        history.losses.isr_proposed(NAME, (1, 2))
    history.by_leader(1, 2)
    assert history.is_excused() is is_before


@pytest.mark.parametrize(("leader_epoch", "is_excused"), [(1, True), (2, False)])
def test_leader_by_a_late_request_is_not_judged_by_the_isr_of_a_later_epoch(
    leader_epoch: int, is_excused: bool
) -> None:
    history = _History(1, 2)
    history.lose()
    history.losses.failed(1)
    history.epoch = 2
    history.by_controller(1)
    assert history.is_excused(leader_epoch=leader_epoch) is is_excused


def test_loss_before_an_unclean_election_is_excused() -> None:
    history = _History(1, 2)
    history.losses.unclean(NAME, 3)
    assert history.is_excused(leader=3)


@pytest.mark.parametrize(("leader_epoch", "is_excused"), [(2, True), (3, False)])
def test_record_of_the_leader_before_an_unclean_election_is_excused(
    leader_epoch: int, is_excused: bool
) -> None:
    losses = Losses()
    losses.unclean(NAME, 3)
    assert losses.may_be_lost(NAME, OFFSET, RECORD, losses.next(), leader_epoch) is is_excused


def test_deleted_topic_is_forgotten() -> None:
    history = _History(2)
    history.lose()
    history.losses.forget(NAME)
    assert not history.is_excused()


@pytest.mark.parametrize(
    ("shutting_down", "live", "is_excused"),
    [
        pytest.param((1,), (2, 3), True, id="its-shutdown"),
        pytest.param((), (1, 2, 3), False, id="no-shutdown"),
        pytest.param((1,), (3,), False, id="failure-that-the-controller-knows"),
    ],
)
def test_loss_that_follows_the_shutdown_of_the_other_member(
    shutting_down: tuple[int, ...], live: tuple[int, ...], is_excused: bool
) -> None:
    """Broker 2 has lost the record. Its znode exists until its session ends, so the controller
    grants broker 1 its shutdown."""
    path = znodes.state_path(*NAME)
    isr = znodes.write_state(LeaderAndIsr(2, 0, (1, 2), 0, 1)).decode()
    topics = (TopicSpec("orders", ((1, 2),)),)
    state = start_state(Scenario(brokers=(), topics=topics, controllers=(), znodes={path: isr}))
    known = KnownCluster()
    known.live_brokers_of = lambda process: live
    known.shutting_down_of = lambda process: shutting_down
    facts = ZooKeeperFacts(known, state, lambda fact: [])
    facts.load()
    at = known.losses.next()
    known.losses.lost(2, NAME, OFFSET, [RECORD])
    shrunk = znodes.write_state(LeaderAndIsr(2, 1, (2,), 0, 1))
    state.apply(state.create_session(), SetData(path, shrunk, ANY_VERSION), 0)
    facts.on_commit("refold 100", [("data", path)])
    known.losses.leadership_begun(NAME, 2, 1)
    assert known.losses.may_be_lost(NAME, OFFSET, RECORD, at, 0) is is_excused
