"""Topics and partitions that are created and deleted in ZooKeeper (KB 3.5, 3.6, 4.3, 17.1,
17.11)."""

import pytest

from controller.core import znodes
from controller.core.commands import Choice, DrawTopicIds, ReadZnodes
from controller.core.operations import Create, SetData
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import Assignment, LeaderAndIsr
from tests.controller.core.cluster import DAEMON, Cluster, by_rule, reads, topic_json, writes_state
from tests.controller.core.procedures.elections.electing import configure


def test_CI_08_new_topic_gets_its_leader() -> None:
    cluster = Cluster(0).start()
    seen = cluster.seen()
    cluster.create_topic("t", {0: [0]})
    assert cluster.state("t", 0) == "leader 0 e 0 isr [0] v 0 ce 1"
    announced = "t-0 leader 0 e 0 isr [0] v 0 ce 1 replicas [0]"
    assert seen.requests(0) == [
        f"LeaderAndIsr v7; {announced} new",
        f"UpdateMetadata v8; live [0]; {announced} offline []",
    ]


def test_znodes_of_a_new_topic_are_created_from_the_top() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    created = [one.path for one in seen.writes() if isinstance(one, Create)]
    assert created == [
        znodes.partitions_path("t"),
        znodes.partition_path("t", 0),
        znodes.partition_path("t", 1),
        znodes.state_path("t", 0),
        znodes.state_path("t", 1),
    ]


def test_CI_09_new_topic_with_an_offline_replica_gets_its_leader() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [2, 1]})
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_CI_10_added_partition_gets_its_leader() -> None:
    """A tool rewrites the znode with another topic id. The known id is kept."""
    cluster = Cluster(0).start()
    cluster.create_topic("t", {0: [0]})
    given = cluster.topic("t").topic_id
    seen = cluster.seen()
    other = znodes.write_topic_id(b"another topic id"[:16])
    cluster.create_topic("t", {0: [0], 1: [0]}, topic_id=other)
    assert cluster.state("t", 1) == "leader 0 e 0 isr [0] v 0 ce 1"
    (request,) = seen.leader_and_isr(0)
    assert [(one.partition, one.topic_id) for one in request.partitions] == [(1, given)]
    assert seen.kinds(0) == ["LeaderAndIsr", "UpdateMetadata"]


def test_CI_11_added_partition_with_an_offline_replica_gets_its_leader() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [2, 1]})
    cluster.create_topic("t", {0: [2, 1], 1: [2, 1]})
    assert cluster.state("t", 1) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_controllers_own_writes_add_nothing() -> None:
    """KB 3.6.1: changes of known partitions are ignored."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    seen = cluster.seen()
    topic_id = znodes.write_topic_id(cluster.topic("t").topic_id)
    cluster.create_topic("t", {0: [2, 1]}, topic_id=topic_id)
    assert cluster.partition("t", 0).replicas == (1, 2)
    assert seen.requested() == {}
    assert seen.writes() == []


def test_OB_10_partition_without_a_live_replica_stays_new() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.create_topic("t", {0: [4, 2], 1: [4]})
    assert cluster.state("t", 0) == "leader 2 e 0 isr [2] v 0 ce 1"
    assert cluster.state("t", 1) is None
    assert cluster.partition("t", 1).state is PartitionState.NEW
    assert cluster.partition("t", 1).replica_states == {4: ReplicaState.ONLINE}
    assert ("no_leader_created", "t-1") in seen.notices()
    assert seen.failed_elections() == [
        Choice("t", 1, -1, "first live replica", ((4, "not online"),))
    ]


def test_partition_without_a_first_leader_is_reported_once() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    cluster.create_topic("t", {0: [4]})
    for _ in range(2):
        cluster.start_broker(2)
        cluster.stop_broker(2)
    assert seen.notices().count(("no_leader_created", "t-0")) == 1
    seen = cluster.seen()
    cluster.start_broker(4)
    cluster.stop_broker(4)
    assert ("no_leader_elected", "t-0") in seen.notices()
    seen = cluster.seen()
    cluster.start_broker(2)
    assert ("no_leader_elected", "t-0") not in seen.notices()


def test_existing_state_znode_is_not_changed() -> None:
    """KB 4.3.4: any code but OK leaves the partition new."""
    cluster = Cluster(1, rules="kafka").start()
    there = b'{"version":1,"leader":9,"leader_epoch":7,"controller_epoch":1,"isr":[9]}'

    def create_state() -> None:
        for path in (znodes.partitions_path("t"), znodes.partition_path("t", 0)):
            cluster.ask(Create(path))
        cluster.ask(Create(znodes.state_path("t", 0), there))

    cluster.once(writes_state("t", 0), create_state)
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1], 1: [1]})
    assert cluster.data(znodes.state_path("t", 0)) == there
    assert cluster.partition("t", 0).state is PartitionState.NEW
    assert cluster.state("t", 1) == "leader 1 e 0 isr [1] v 0 ce 1"
    assert ("no_leader_created", "t-0") in seen.notices()


def names_by_id(cluster: Cluster) -> dict[bytes, str]:
    """The topics that the controller knows by id."""
    by_id = cluster.fold.controller.context.topics_by_id
    return {topic_id: topic.name for topic_id, topic in by_id.items()}


def test_CI_45_topics_get_ids() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t1", {0: [1]})
    first = cluster.topic("t1").topic_id
    cluster.create_topic("t2", {0: [1]})
    second = cluster.topic("t2").topic_id
    assert first is not None
    assert second is not None
    assert first != second
    assert cluster.topic("t1").topic_id == first
    assert cluster.partition("t1", 0).topic.id == first
    assert cluster.partition("t2", 0).topic.id == second
    assert names_by_id(cluster) == {first: "t1", second: "t2"}


def test_CI_46_topics_get_no_ids_below_2_8() -> None:
    cluster = Cluster(1, inter_broker_protocol_version="2.7-IV0").start()
    for name in ("t1", "t2"):
        cluster.create_topic(name, {0: [1]})
        assert cluster.topic(name).topic_id is None
        assert cluster.partition(name, 0).topic.id is None
    assert names_by_id(cluster) == {}


def test_CI_47_topic_created_without_an_id_gets_one_and_keeps_it() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1]})
    given = cluster.topic("t").topic_id
    assert given is not None
    path = znodes.topic_path("t")
    assert [one.path for one in seen.writes() if isinstance(one, SetData)] == [path]
    cluster.create_topic("t", {0: [1], 1: [1]}, topic_id=znodes.write_topic_id(given))
    assert cluster.topic("t").topic_id == given
    assert cluster.partition("t", 1).topic.id == given
    assert names_by_id(cluster) == {given: "t"}
    cluster.remove_topic_znodes("t")
    assert cluster.fold.controller.context.known_topics() == []
    assert names_by_id(cluster) == {}


def test_CI_48_below_2_8_a_topic_never_gets_an_id() -> None:
    cluster = Cluster(1, inter_broker_protocol_version="2.7-IV0").start()
    cluster.create_topic("t", {0: [1]})
    assert cluster.topic("t").topic_id is None
    cluster.create_topic("t", {0: [1], 1: [1]})
    assert cluster.topic("t").topic_id is None
    cluster.remove_topic_znodes("t")
    assert cluster.fold.controller.context.known_topics() == []


def test_existing_id_is_not_replaced() -> None:
    cluster = Cluster(1).start()
    theirs = znodes.write_topic_id(bytes(range(16)))
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1]}, topic_id=theirs)
    assert cluster.partition("t", 0).topic.id == bytes(range(16))
    assert not any(isinstance(one, DrawTopicIds) for one in seen.commands)


def test_deleted_topic_is_forgotten_without_a_request() -> None:
    """KB 3.5 item 3."""
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    cluster.remove_topic_znodes("t")
    assert seen.requested() == {}
    assert cluster.fold.controller.context.find("t", 0) is not None
    assert cluster.partition("t", 0).replicas == ()


def test_topic_deleted_and_created_by_a_tool_is_an_invalid_transition() -> None:
    """KB 3.5, last item: its partitions are not in NonExistent."""
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    cluster.remove_topic_znodes("t")
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1]})
    refused = ["partition_state_refused", "replica_state_refused"]
    assert seen.notices() == [(code, "t-0") for code in (*refused, "no_leader_elected")]


def test_topic_that_a_tool_replaced_with_its_states_is_announced_by_both_state_machines() -> None:
    """The partitions are elected first. The replicas are online already, and are informed again."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.remove_topic_znodes("t")
    cluster.change_topic_quietly("t", {0: [1, 2]})
    put_state_quietly(cluster, "t", LeaderAndIsr(1, 5, (1, 2), 0, 1))
    seen = cluster.seen()
    cluster.run()
    announced = "t-0 leader 1 e 6 isr [1,2] v 1 ce 1 replicas [1,2]"
    for broker in (1, 2):
        sent = [one for one in seen.requests(broker) if one.startswith("LeaderAndIsr")]
        assert sent == [f"LeaderAndIsr v7; {announced}"] * 2


def test_topic_deleted_before_it_is_read_has_no_partitions() -> None:
    cluster = Cluster(1).start()
    cluster.change_topic_quietly("t", {0: [1]})
    cluster.once(
        by_rule(ReadZnodes, "topic change"), lambda: cluster.remove_quietly(znodes.topic_path("t"))
    )
    seen = cluster.seen()
    cluster.run()
    assert seen.requested() == {}
    assert cluster.state("t", 0) is None


def test_partition_added_to_a_deleted_topic_is_created_with_its_next_topic() -> None:
    """A tool adds a partition, deletes the topic, and creates it again before the controller
    handles the addition, but after it knows of the deletion."""
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    cluster.change_topic_quietly("u", {0: [1]})
    cluster.change_topic_quietly("t", {0: [1], 1: [1]})
    cluster.remove_quietly(znodes.topic_path("t"))
    cluster.once(
        reads(znodes.topic_path("u")),
        lambda: cluster.change_topic_quietly("t", {0: [1], 1: [1]}),
    )
    seen = cluster.seen()
    cluster.run()
    assert {subject for _, subject in seen.notices()} == {"t-0"}
    assert cluster.state("t", 1) == "leader 1 e 0 isr [1] v 0 ce 1"


# daemon-id-repaired -------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", ["refold", "kafka"])
@pytest.mark.deviates("daemon-id-repaired")
def test_daemon_is_replaced_in_a_new_topic(rules: str) -> None:
    cluster = Cluster(1, 2, 3, rules=rules).start()
    seen = cluster.seen()
    cluster.create_topic("t", {0: [DAEMON, 1], 1: [1, DAEMON]})
    assignments = cluster.topic("t").assignments
    assert {number: one.replicas for number, one in assignments.items()} == {0: (2, 1), 1: (1, 3)}
    assert cluster.state("t", 0) == "leader 2 e 0 isr [2,1] v 0 ce 1"
    assert cluster.state("t", 1) == "leader 1 e 0 isr [1,3] v 0 ce 1"
    written = seen.written()
    assert written.index(znodes.topic_path("t")) < written.index(znodes.state_path("t", 0))
    assert_daemon_is_never_in_requests(cluster)
    assert ("own_id_repaired", znodes.topic_path("t")) in seen.notices()


@pytest.mark.deviates("daemon-id-repaired")
def test_replacement_of_the_daemon_is_in_a_rack_that_the_partition_lacks() -> None:
    cluster = Cluster()
    for broker, rack in {1: "b", 2: "c", 3: "b", 4: "a"}.items():
        cluster.register(broker, rack)
    cluster.start()
    for topic in ("t", "u", "v"):
        cluster.create_topic(topic, {0: [DAEMON, 1, 2], 1: [3, DAEMON, 4]})
        replicas = [one.replicas for one in cluster.topic(topic).assignments.values()]
        assert replicas == [(4, 1, 2), (3, 2, 4)]


def test_replacements_of_the_daemon_are_all_brokers_in_turn() -> None:
    cluster = Cluster(1, 2, 3, 4, 5, 6).start()
    for place in range(60):
        cluster.create_topic(f"t{place}", {0: [DAEMON, 1]})
    led = [cluster.partition(f"t{place}", 0).replicas[0] for place in range(60)]
    assert {broker for broker in led if led.count(broker) > 5} == {2, 3, 4, 5, 6}


def test_replacements_of_the_daemon_follow_the_numbers_of_partitions() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {number: [DAEMON] for number in range(4)})
    chosen = [cluster.partition("t", number).replicas[0] for number in range(4)]
    assert [after % 3 for after in chosen[:-1]] == [one - 1 for one in chosen[1:]]


def test_daemon_is_replaced_in_an_added_partition() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1]})
    cluster.create_topic("t", {0: [1], 1: [1, DAEMON]})
    assert cluster.topic("t").assignments[1].replicas == (1, 2)
    assert cluster.topic("t").topic_id is not None
    assert cluster.state("t", 1) == "leader 1 e 0 isr [1,2] v 0 ce 1"
    assert_daemon_is_never_in_requests(cluster)


@pytest.mark.parametrize("rules", ["refold", "kafka"])
@pytest.mark.parametrize("added", [{}, {2: [DAEMON, 2]}])
@pytest.mark.deviates("daemon-id-repaired")
def test_daemon_is_replaced_in_a_known_partition(rules: str, added: dict[int, list[int]]) -> None:
    """Brokers get no request about changes by tools, but would get one from the next controller."""
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1, DAEMON], 1: [1], **added})
    replicas = {number: one.replicas for number, one in cluster.topic("t").assignments.items()}
    assert replicas == {0: (1, 2), 1: (1,), **{number: (1, 2) for number in added}}
    assert cluster.partition("t", 0).replicas == (1, 2)
    assert cluster.partition("t", 1).replicas == (2, 1)
    assert ("own_id_repaired", znodes.topic_path("t")) in seen.notices()
    assert seen.written().count(znodes.topic_path("t")) == 1
    assert_daemon_is_never_in_requests(cluster)


def test_daemon_is_replaced_in_topics_found_by_a_failover() -> None:
    cluster = Cluster(1, 2)
    cluster.change_topic_quietly("t", {0: [DAEMON], 1: [2, DAEMON]})
    cluster.start()
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"
    assert cluster.state("t", 1) == "leader 2 e 0 isr [2,1] v 0 ce 1"
    assert_daemon_is_never_in_requests(cluster)


@pytest.mark.parametrize("name", ["adding_replicas", "removing_replicas"])
@pytest.mark.parametrize("is_known", [False, True])
def test_daemon_is_removed_from_adding_and_removing_replicas(name: str, is_known: bool) -> None:
    """A client wrote the topic's znode before the take-over, or under the active daemon."""
    cluster = Cluster(1, 2, 3)
    if is_known:
        cluster.create_topic("t", {0: [1, 2]})
        cluster.start()
    cluster.change_topic_quietly("t", {0: [1, 2]}, **{name: {"0": [DAEMON]}})
    if is_known:
        cluster.run()
    else:
        cluster.start()
    assert cluster.topic("t").assignments[0] == Assignment((1, 2))
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2] v 0 ce 1"
    assert_daemon_is_never_in_requests(cluster)


@pytest.mark.parametrize("rules", ["refold", "kafka"])
@pytest.mark.parametrize("leader", [1, DAEMON])
@pytest.mark.deviates("daemon-id-repaired")
def test_daemon_is_removed_from_an_isr_found_by_a_failover(rules: str, leader: int) -> None:
    cluster = Cluster(1, 2, 3, rules=rules)
    cluster.change_topic_quietly("t", {0: [1, 2]})
    put_state_quietly(cluster, "t", LeaderAndIsr(leader, 5, (DAEMON, 1, 2), 0, 0))
    seen = cluster.seen()
    cluster.start()
    assert cluster.state("t", 0) == "leader 1 e 6 isr [1,2] v 1 ce 1"
    assert ("own_id_repaired", znodes.state_path("t", 0)) in seen.notices()


@pytest.mark.parametrize("rules", ["refold", "kafka"])
@pytest.mark.parametrize("in_sync", [(1, DAEMON), (DAEMON, 1, 2)])
@pytest.mark.deviates("daemon-id-repaired")
def test_daemon_is_not_the_last_member_of_an_isr_whose_brokers_are_all_dead(
    rules: str, in_sync: tuple[int, ...]
) -> None:
    """A broker that returns can lead: no other replica has its records."""
    cluster = Cluster(1, 2, rules=rules)
    cluster.change_topic_quietly("t", {0: [1, 2]})
    put_state_quietly(cluster, "t", LeaderAndIsr(1, 5, in_sync, 0, 0))
    for broker in (1, 2):
        cluster.stop_broker(broker)
    cluster.start()
    last = 2 if 2 in in_sync else 1
    state = cluster.state("t", 0) or ""
    assert state.startswith("leader -1")
    assert f"isr [{last}]" in state
    cluster.start_broker(last)
    assert cluster.leadership("t", 0).leader == last
    assert cluster.leadership("t", 0).isr == (last,)


def test_isr_of_the_daemon_alone_needs_an_unclean_election() -> None:
    cluster = Cluster(1, 2)
    cluster.change_topic_quietly("t", {0: [1, 2]})
    put_state_quietly(cluster, "t", LeaderAndIsr(DAEMON, 5, (DAEMON,), 0, 0))
    cluster.start()
    assert cluster.state("t", 0) == f"leader {DAEMON} e 5 isr [{DAEMON}] v 0 ce 0"
    configure(cluster, "topics/t", "true")
    assert cluster.state("t", 0) == "leader 1 e 6 isr [1] v 1 ce 1 recovering"


def put_state_quietly(cluster: Cluster, topic: str, state: LeaderAndIsr) -> None:
    """A client writes the state of partition 0."""
    for path in (znodes.partitions_path(topic), znodes.partition_path(topic, 0)):
        cluster.put_quietly(path, b"")
    cluster.put_quietly(znodes.state_path(topic, 0), znodes.write_state(state))


def test_without_another_broker_the_daemon_is_only_removed() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [DAEMON, 1]})
    assert cluster.topic("t").assignments[0].replicas == (1,)
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_assignment_to_the_daemon_alone_waits_for_a_broker() -> None:
    """No live broker can replace the daemon. The next broker that registers does."""
    cluster = Cluster().start()
    cluster.create_topic("t", {0: [DAEMON]})
    assert cluster.state("t", 0) is None
    cluster.start_broker(1)
    assert cluster.topic("t").assignments[0].replicas == (1,)
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_repair_lost_to_a_concurrent_write_is_not_assumed() -> None:
    """The topic was deleted during the repair, so that no znode is created for it."""
    cluster = Cluster(1, 2).start()
    path = znodes.topic_path("t")
    cluster.once(
        lambda issued: issued.reason.rule == "topic ids and repaired assignments",
        lambda: cluster.remove_quietly(path),
    )
    cluster.create_topic("t", {0: [DAEMON, 1]})
    assert cluster.data(path) is None
    assert cluster.data(znodes.state_path("t", 0)) is None


def assert_daemon_is_never_in_requests(cluster: Cluster) -> None:
    for issued in cluster.commands():
        for partition in getattr(issued.command, "partitions", ()):
            assignment = getattr(partition, "assignment", None)
            replicas = assignment.replicas if assignment else getattr(partition, "replicas", ())
            assert DAEMON not in replicas


# Many topics --------------------------------------------------------------------------------------


def test_partitions_of_many_topics_share_a_batch() -> None:
    cluster = Cluster(1).start()
    for name in ("b", "a"):
        cluster.ask(Create(znodes.topic_path(name), topic_json({1: [1], 0: [1]})))
    seen = cluster.seen()
    cluster.run()
    (request,) = seen.leader_and_isr(1)
    assert [(one.topic, one.partition) for one in request.partitions] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]
