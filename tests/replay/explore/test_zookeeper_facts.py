"""What the transactions of ZooKeeper show to the invariants."""

from controller.core import znodes
from controller.core.operations import Create, Delete, SetData
from controller.core.values import ANY_VERSION, LeaderAndIsr
from replay.explore.invariants.invariant import StateWrite
from replay.explore.invariants.known import Known
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
        Known(), state, lambda fact: [writes.append] if fact == "state_written" else []
    )
    facts.load()
    session = state.create_session()
    state.apply(session, Create(broker, b"{}"), 0)
    facts.committed("broker 3", [("created", broker)])
    state.apply(session, Delete(broker, ANY_VERSION), 0)
    facts.committed("broker 3", [("deleted", broker)])
    after = znodes.write_state(LeaderAndIsr(1, 1, (1,), 0, 1))
    state.apply(session, SetData(path, after, ANY_VERSION), 0)
    facts.committed("refold 100", [("data", path)])
    [write] = [one for one in writes if one.before is not None]
    assert write.restarted == (3,)
