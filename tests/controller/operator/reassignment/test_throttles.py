from controller.core.values import Assignment
from controller.operator.reassignment.steps import describe_step
from controller.operator.reassignment.throttle_configs import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    brokers_of_throttled_replicas,
)
from controller.operator.reassignment.throttling import (
    clearing_steps,
    planned_moves,
    throttle_steps,
    throttled_brokers,
    topic_throttles,
)


def test_leaders_are_throttled_for_the_old_replicas_and_followers_for_the_new_ones() -> None:
    moving = planned_moves(
        {("t", 0): (2, 3)}, {("t", 0): Assignment((1, 2)), ("t", 1): Assignment((1,))}
    )
    assert topic_throttles(moving) == {
        "t": {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:3",
        }
    }
    assert throttled_brokers(moving.values()) == [1, 2, 3]


def test_reassignment_under_way_stays_throttled() -> None:
    under_way = Assignment((4, 1, 2), (4,), (1, 2))
    moving = planned_moves({("t", 0): (2, 3)}, {("t", 0): Assignment((1, 2)), ("t", 7): under_way})
    assert topic_throttles(moving)["t"] == {
        "leader.replication.throttled.replicas": "0:1,0:2,7:1,7:2",
        "follower.replication.throttled.replicas": "0:3,7:4",
    }


def test_new_target_replaces_the_throttle_of_the_former() -> None:
    under_way = Assignment((4, 1, 2), (4,), (1, 2))
    moving = planned_moves({("t", 0): (5,)}, {("t", 0): under_way})
    assert moving["t", 0].sources == (1, 2)
    assert moving["t", 0].destinations == (5,)


def test_steps_are_described_as_text() -> None:
    moving = planned_moves({("t", 0): (2,)}, {("t", 0): Assignment((1,))})
    lines = [line for step in throttle_steps(moving, 1000) for line in describe_step(step)]
    limit = "set leader.replication.throttled.rate=1000, set follower.replication.throttled.rate"
    assert lines == [
        "configuration of topics/t: set leader.replication.throttled.replicas=0:1, "
        "set follower.replication.throttled.replicas=0:2",
        f"configuration of brokers/1: {limit}=1000",
        f"configuration of brokers/2: {limit}=1000",
    ]


def test_throttled_replicas_name_brokers() -> None:
    config = {LEADER_REPLICAS: "0:1,0:2, 1:2", FOLLOWER_REPLICAS: "0:14,x,1:y"}
    assert brokers_of_throttled_replicas(config) == {1, 2, 14}
    assert brokers_of_throttled_replicas({LEADER_REPLICAS: "*"}) == frozenset()


def test_every_broker_and_topic_is_cleared_once() -> None:
    steps = clearing_steps([1, 2], {("t", 0): (1,), ("t", 1): (2,)})
    assert [one.entity for one in steps] == ["brokers/1", "brokers/2", "topics/t"]
    assert "replica.alter.log.dirs.io.max.bytes.per.second" in steps[0].removed
