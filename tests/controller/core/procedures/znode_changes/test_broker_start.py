"""Requests to brokers when brokers start, topic by topic (KB 9.1)."""

from collections.abc import Callable

import pytest

from controller.core.state_machines import ReplicaState
from controller.wire.encoding import BatchEncoder
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import submit
from tests.controller.core.procedures.znode_changes.log_dir_failures import (
    announce,
    storage_errors,
)
from tests.controller.core.replaying import assert_replays

LED = {
    "t-0": "t-0 leader 1 e 1 isr [1] v 1 ce 1 replicas [3,1]",
    "t-1": "t-1 leader 1 e 0 isr [1,2] v 0 ce 1 replicas [1,2]",
    "t-2": "t-2 leader 2 e 1 isr [2] v 1 ce 1 replicas [2,3]",
}
"""The partitions of topic t after the failure of broker 3."""


@pytest.fixture(params=["prepared now", "prepared ahead"], autouse=True)
def prepared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are sent the same whether the controller has had time to prepare it."""
    register = Cluster.register

    def prepare_and_register(cluster: Cluster, broker: int, rack: str | None = None) -> None:
        cluster.prepare_ahead()
        register(cluster, broker, rack)

    if request.param == "prepared ahead":
        monkeypatch.setattr(Cluster, "register", prepare_and_register)


def metadata(live: str, *announced: str) -> str:
    return "; ".join((f"UpdateMetadata v8; live [{live}]", *announced))


def leaders(*announced: str) -> str:
    return "; ".join(("LeaderAndIsr v7", *announced))


def failed_broker(**other_topics: dict[int, list[int]]) -> Cluster:
    """Broker 3 of topic t has failed."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [3, 1], 1: [1, 2], 2: [2, 3]})
    for name, partitions in other_topics.items():
        cluster.create_topic(name, partitions)
    cluster.stop_broker(3)
    return cluster


def test_returned_broker_learns_all_partitions_and_the_others_those_on_it() -> None:
    cluster = failed_broker()
    seen = cluster.seen()
    cluster.start_broker(3)
    everything = [f"{one} offline []" for one in LED.values()]
    here = [f"{LED[one]} offline []" for one in ("t-0", "t-2")]
    assert seen.requested() == {
        1: [metadata("1,2,3"), metadata("1,2,3", *here)],
        2: [metadata("1,2,3"), metadata("1,2,3", *here)],
        3: [
            metadata("1,2,3", *everything),
            leaders(LED["t-0"], LED["t-2"]),
            metadata("1,2,3", *here),
        ],
    }


def test_topics_with_and_without_a_dead_broker_are_in_one_request() -> None:
    """Topics a and u have a replica on broker 9, which does not exist."""
    cluster = failed_broker(a={0: [1, 9], 1: [1, 3]}, u={0: [2, 9]})
    seen = cluster.seen()
    cluster.start_broker(3)
    other_replica = "a-1 leader 1 e 1 isr [1] v 1 ce 1 replicas [1,3]"
    assert seen.requests(3) == [
        metadata(
            "1,2,3",
            "a-0 leader 1 e 0 isr [1] v 0 ce 1 replicas [1,9] offline [9]",
            f"{other_replica} offline []",
            *(f"{one} offline []" for one in LED.values()),
            "u-0 leader 2 e 0 isr [2] v 0 ce 1 replicas [2,9] offline [9]",
        ),
        leaders(other_replica, LED["t-0"], LED["t-2"]),
        metadata(
            "1,2,3",
            f"{other_replica} offline []",
            f"{LED['t-0']} offline []",
            f"{LED['t-2']} offline []",
        ),
    ]


def test_brokers_that_start_together_learn_of_each_other() -> None:
    """Topic u has no replica on broker 3, and v none on either broker."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1], 2: [1, 3], 3: [3, 2]})
    cluster.create_topic("u", {0: [1, 2]})
    cluster.create_topic("v", {0: [1]})
    cluster.stop_broker(2)
    cluster.set_isr("t", 2, [1])
    cluster.stop_broker(3)
    cluster.register(2)
    cluster.register(3)
    seen = cluster.seen()
    cluster.run()

    def named(request: str) -> list[str]:
        return [part.split(" ")[0] for part in request.split("; ") if " leader " in part]

    [to_others] = [one for one in seen.requests(1) if "t-0" in one]
    assert named(to_others) == ["t-0", "t-2", "t-3", "u-0"]
    sent = {
        broker: named(next(one for one in seen.requests(broker) if one.startswith("LeaderAndIsr")))
        for broker in (2, 3)
    }
    assert sent == {2: ["t-0", "t-3", "u-0"], 3: ["t-2", "t-3"]}
    for request in seen.broker_requests():
        version = request.version
        assert BatchEncoder().encode(request, version)


def test_replicas_of_a_returned_broker_are_online() -> None:
    cluster = failed_broker()
    before = [cluster.partition("t", number).replica_states[3] for number in (0, 2)]
    cluster.start_broker(3)
    after = [cluster.partition("t", number).replica_states[3] for number in (0, 2)]
    assert before == [ReplicaState.OFFLINE] * 2
    assert after == [ReplicaState.ONLINE] * 2


@pytest.mark.parametrize(("broker", "offline"), [(1, "[1]"), (3, "[]")])
def test_failed_directory_counts_until_its_broker_starts(broker: int, offline: str) -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [2, 1, 3]})
    storage_errors(cluster, broker, ("t", 0))
    announce(cluster, b'{"version":1,"broker":%d,"event":1}' % broker)
    cluster.stop_broker(3)
    seen = cluster.seen()
    cluster.start_broker(3)
    assert seen.requests(3)[0].endswith(f"replicas [2,1,3] offline {offline}")


def test_broker_that_leads_and_has_no_replica_is_sent_the_partition_alone() -> None:
    """The state that names it was written by hand."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.set_isr("t", 0, [3])
    cluster.stop_broker(3)
    seen = cluster.seen()
    cluster.start_broker(3)
    assert seen.kinds(3) == ["UpdateMetadata"]


def test_new_replica_comes_online_and_its_broker_is_sent_it_once_more() -> None:
    """The reassignment was begun while the broker of its new replica was dead."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2], 1: [3, 1]})
    cluster.stop_broker(3)
    submit(cluster, {("t", 0): [1, 3]})
    seen = cluster.seen()
    cluster.start_broker(3)
    other = "t-1 leader 1 e 1 isr [1] v 1 ce 1 replicas [3,1]"
    assert seen.requests(3)[1:] == [
        leaders(other),
        metadata("1,2,3", f"{other} offline []"),
        leaders("t-0 leader 1 e 2 isr [1,2] v 2 ce 1 replicas [1,3,2] adding [3] removing [2] new"),
        metadata("1,2,3", "t-0 leader 1 e 2 isr [1,2] v 2 ce 1 replicas [1,3,2] offline []"),
    ]


def _shrink(cluster: Cluster) -> None:
    cluster.set_isr("t", 1, [1])
    cluster.announce_isr(("t", 1))


def _create_again(cluster: Cluster) -> None:
    cluster.remove_topic_znodes("t")
    cluster.create_topic("t", {0: [3, 1], 1: [1, 2], 2: [2, 3]})


@pytest.mark.parametrize(
    "change",
    [
        _shrink,
        _create_again,
        lambda cluster: cluster.create_topic("t", {0: [3, 1], 1: [1, 2], 2: [2, 3], 3: [2, 1]}),
        lambda cluster: submit(cluster, {("t", 1): [1, 2, 3]}),
        lambda cluster: cluster.expire(),
        lambda cluster: cluster.stop_broker(2),
    ],
    ids=["isr", "created again", "partition added", "reassignment", "failover", "broker failure"],
)
def test_topic_that_changes_after_it_was_prepared_is_sent_with_the_change(
    change: Callable[[Cluster], None],
) -> None:
    cluster = failed_broker()
    cluster.prepare_ahead()
    change(cluster)
    cluster.start_broker(3)
    assert_replays(cluster)
