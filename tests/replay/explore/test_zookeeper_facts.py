"""The facts about ZooKeeper's transactions that invariants receive."""

import pytest

from controller.core import znodes
from controller.core.operations import Create, Delete, SetData
from controller.core.values import ANY_VERSION, Assignment, LeaderAndIsr
from replay.explore.invariants.invariant import StateWrite
from replay.explore.invariants.known_cluster import KnownCluster
from replay.explore.zookeeper_facts import ZooKeeperFacts
from replay.world.scenario import Scenario, TopicSpec
from replay.world.start_state import start_state


def test_member_that_registered_again_has_restarted_even_if_its_znode_is_gone_now() -> None:
    path, broker = znodes.state_path("orders", 0), f"{znodes.BROKER_IDS}/3"
    isr = znodes.write_state(LeaderAndIsr(1, 0, (1, 3), 0, 1)).decode()
    topics = (TopicSpec("orders", ((1, 3),)),)
    state = start_state(Scenario(brokers=(), topics=topics, controllers=(), znodes={path: isr}))
    writes: list[StateWrite] = []
    facts = ZooKeeperFacts(
        KnownCluster(), state, lambda fact: [writes.append] if fact == "state_written" else []
    )
    facts.load()
    session = state.create_session()
    state.apply(session, Create(broker, b"{}"), 0)
    facts.on_commit("broker 3", [("created", broker)])
    state.apply(session, Delete(broker, ANY_VERSION), 0)
    facts.on_commit("broker 3", [("deleted", broker)])
    after = znodes.write_state(LeaderAndIsr(1, 1, (1,), 0, 1))
    state.apply(session, SetData(path, after, ANY_VERSION), 0)
    facts.on_commit("refold 100", [("data", path)])
    [write] = [one for one in writes if one.before is not None]
    assert write.restarted == (3,)


@pytest.mark.parametrize(("process", "by_tool"), [("admin", True), ("refold 100", False)])
def test_assignment_that_a_tool_has_changed_is_remembered_after_the_deletion_of_its_topic(
    process: str, by_tool: bool
) -> None:
    topics = (TopicSpec("orders", ((1,),)),)
    state = start_state(Scenario(brokers=(), topics=topics, controllers=(), znodes={}))
    known = KnownCluster()
    facts = ZooKeeperFacts(known, state, lambda fact: [])
    facts.load()
    path, session = znodes.topic_path("orders"), state.create_session()
    data = b'{"version":1,"partitions":{"0":[2]}}'
    state.apply(session, SetData(path, data, ANY_VERSION), 0)
    facts.on_commit(process, [("data", path)])
    for child in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        state.apply(session, Delete(path + child, ANY_VERSION), 0)
    facts.on_commit("refold 100", [("deleted", path)])
    assert "orders" not in known.topics
    assert (("orders", 0) in known.changed_by_tools) is by_tool


@pytest.mark.parametrize(
    ("is_cancelled", "requested", "is_excused"),
    [
        (True, (1, 2), True),
        (False, (1, 2), False),
        (False, (4, 3), True),
    ],
)
def test_loss_is_excused_if_the_rollback_has_removed_the_other_members_of_the_isr(
    is_cancelled: bool, requested: tuple[int, ...], is_excused: bool
) -> None:
    name = ("payments", 1)
    topics = (TopicSpec("payments", ((1,), (3, 4))),)
    path = znodes.state_path(*name)
    isr = znodes.write_state(LeaderAndIsr(4, 1, (4, 1), 0, 1)).decode()
    state = start_state(Scenario(brokers=(), topics=topics, controllers=(), znodes={path: isr}))
    known = KnownCluster()
    facts = ZooKeeperFacts(known, state, lambda fact: [])
    facts.load()
    topic = known.topics["payments"]
    topic.assignments[1] = Assignment((1, 2, 3, 4), adding=(1, 2), removing=(3, 4))
    acknowledged = known.losses.at
    known.losses.lost(4, name, 1, [5])
    known.requests_of(name).is_cancelled = is_cancelled
    known.requests_of(name).add(requested)
    session = state.create_session()
    alone = znodes.write_state(LeaderAndIsr(4, 2, (4,), 0, 1))
    state.apply(session, SetData(path, alone, ANY_VERSION), 0)
    facts.on_commit("refold 100", [("data", path)])
    known.losses.leadership_begun(name, 4, 2)
    assert known.losses.may_be_lost(name, 1, 5, acknowledged, 1) is is_excused
