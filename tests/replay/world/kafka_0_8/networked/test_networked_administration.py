"""The commands of the 0.8 design, carried out over a session of the simulation."""

from collections.abc import Sequence

import pytest

from controller.kafka_0_8 import znodes
from replay.world.inputs import (
    CreateTopic,
    CutConnection,
    DeleteControllerZnode,
    DeleteTopic,
    LoseReply,
    Reassign,
    StopBroker,
    Target,
    WriteZnode,
)
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.kafka_0_8.networked.inputs import AddBrokers, Input08, RemoveBrokers
from replay.world.processes import ADMIN
from replay.world.scenario import BrokerSpec, Scenario, TopicSpec


def run(*inputs: Input08, end_s: int = 12) -> NetworkedCluster:
    """Topic t on brokers 1 and 2, and broker 3 without a replica."""
    scenario = Scenario(
        brokers=tuple(map(BrokerSpec, (1, 2, 3))),
        broker_settings={"zookeeper.session.timeout.ms": "6000"},
        topics=(TopicSpec("t", ((1, 2),)),),
        controllers=(),
        load=None,
        active_ms=end_s * 1000,
        quiet_ms=1000,
    )
    cluster = NetworkedCluster(scenario, inputs)
    while cluster.step():
        pass
    return cluster


def data(cluster: NetworkedCluster, path: str) -> bytes | None:
    """The content of a znode; None: it does not exist."""
    found = cluster.zookeeper.state.find(path)
    return None if found is None else found.data


def test_topic_is_created_moved_and_deleted() -> None:
    create, move = CreateTopic(3_000, "u", ((3, 1),)), Reassign(5_000, (Target("u", 0, (2, 3)),))
    assert data(run(create), znodes.replicas_path("u", 0)) == b"3,1"
    moved = run(create, move)
    assert data(moved, znodes.replicas_path("u", 0)) == b"2,3"
    assert data(moved, znodes.reassigned_path("u", 0)) is None
    deleted = run(create, move, DeleteTopic(8_000, "u"))
    assert data(deleted, znodes.topic_path("u")) is None
    assert all(("u", 0) not in one.store.logs for one in deleted.brokers.values())


def test_queue_is_deleted_and_created() -> None:
    stop, remove = StopBroker(3_000, 3, None), RemoveBrokers(4_000, (3,))
    assert data(run(stop, remove), znodes.state_path(3)) is None
    assert data(run(stop, remove, AddBrokers(5_000, (3,))), znodes.state_path(3)) == b""
    assert data(run(remove), znodes.state_path(3)) is not None


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_command_whose_reply_is_lost_is_run_again(is_carried_out: bool) -> None:
    cluster = run(
        LoseReply(2_999, ADMIN, is_carried_out),
        CreateTopic(3_000, "u", ((3,),)),
    )
    assert data(cluster, znodes.replicas_path("u", 0)) == b"3"
    assert data(cluster, znodes.leader_path("u", 0)) is not None


def test_command_waits_for_a_connection() -> None:
    cut = CutConnection(2_000, ADMIN, "zookeeper", 3_000)
    assert data(run(cut, DeleteTopic(3_000, "t")), znodes.topic_path("t")) is None


@pytest.mark.parametrize(
    "refused",
    [
        CreateTopic(3_000, "t", ((3,),)),
        CreateTopic(3_000, "u", ((9,),)),
        DeleteTopic(3_000, "u"),
        Reassign(3_000, (Target("t", 7, (1,)),)),
        Reassign(3_000, (Target("t", 0, (1, 9)),)),
        RemoveBrokers(3_000, (1,)),
        RemoveBrokers(3_000, (9,)),
    ],
)
def test_refused_command_writes_nothing(refused: Input08) -> None:
    # The client of the command has the first session.
    session = CreateTopic(2_000, "first", ((1,),))
    states = [one.zookeeper.state.dump() for one in (run(session), run(session, refused))]
    contents: Sequence[dict[str, bytes]] = [
        {path: node.data for path, node in state.items()} for state in states
    ]
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("path", "is_removed"),
    [(znodes.replicas_path("t", 0), False), (znodes.reassigned_path("t", 0), True)],
)
def test_broker_is_not_removed_while_replicas_cannot_be_read(path: str, is_removed: bool) -> None:
    mistake = WriteZnode(3_000, path, "garbage")
    stop, remove = StopBroker(3_000, 3, None), RemoveBrokers(5_000, (3,))
    cluster = run(mistake, stop, remove)
    assert data(cluster, path) == b"garbage"
    assert (data(cluster, znodes.state_path(3)) is None) is is_removed


def test_topic_with_unreadable_replicas_is_deleted_from_its_brokers() -> None:
    mistake = WriteZnode(3_000, znodes.replicas_path("t", 0), "garbage")
    cluster = run(mistake, DeleteTopic(5_000, "t"))
    assert data(cluster, znodes.topic_path("t")) is None
    assert all(("t", 0) not in one.store.logs for one in cluster.brokers.values())


def test_act_that_the_design_does_not_have_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="no command for DeleteControllerZnode"):
        run(DeleteControllerZnode(3_000))
