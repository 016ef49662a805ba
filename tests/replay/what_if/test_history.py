"""The changes of partitions and brokers, and the cluster after an event."""

from controller.core import znodes
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes.topics import TopicContent, write_topic
from replay.what_if.history import (
    ClusterHistory,
    PartitionChange,
    PartitionSnapshot,
    RegistrationChange,
    ZnodeReader,
    cluster_state_at,
    is_unclean,
)

STATE = LeaderAndIsr(1, 0, (1, 2), 0, 1)
ASSIGNMENT = Assignment((1, 2))


def test_unchanged_partition_is_no_change() -> None:
    history = ClusterHistory()
    for seq in (5, 6):
        history.note_partition(seq, 10, ("t", 0), PartitionSnapshot(STATE, ASSIGNMENT))
    assert [one.seq for one in history.changes] == [5]


def test_moment_has_what_changed_up_to_its_event() -> None:
    history = ClusterHistory()
    history.note_broker(1, 0, 1, is_registered=True)
    history.note_broker(2, 5, 2, is_registered=True)
    history.note_partition(3, 7, ("t", 0), PartitionSnapshot(STATE, ASSIGNMENT))
    history.note_broker(4, 9, 1, is_registered=False)
    history.note_partition(5, 11, ("t", 0), None)
    cluster = cluster_state_at(history.changes, 4, 9)
    assert list(cluster.brokers) == [2]
    assert cluster.partitions == {("t", 0): PartitionSnapshot(STATE, ASSIGNMENT)}
    assert cluster_state_at(history.changes, 5, 11).partitions == {}


def test_change_that_is_known_later_is_sorted_to_its_event() -> None:
    history = ClusterHistory()
    history.note_partition(8, 10, ("t", 0), PartitionSnapshot(STATE, ASSIGNMENT))
    history.note_broker(7, 9, 2, is_registered=False)
    history.sort()
    assert [type(one) for one in history.changes] == [RegistrationChange, PartitionChange]


def test_znodes_become_partitions_and_registrations() -> None:
    history = ClusterHistory()
    reader = ZnodeReader(history, ("/kept/",))
    topic = write_topic(TopicContent({0: ASSIGNMENT}, None))
    reader.changed(1, 0, "/brokers/topics/t", topic, 0, 0)
    reader.changed(2, 1, znodes.state_path("t", 0), znodes.write_state(STATE), 0, 0)
    reader.changed(3, 2, "/brokers/ids/1", b"{}", 0, 77)
    # A broker writes the data of its registration again when its listeners are open.
    reader.changed(4, 3, "/brokers/ids/1", b"{} ", 1, 77)
    reader.changed(5, 4, "/kept/a", b"x", 0, 0)
    reader.changed(5, 4, "/other/a", b"x", 0, 0)
    cluster = cluster_state_at(history.changes, 5, 4)
    assert cluster.partitions[("t", 0)] == PartitionSnapshot(STATE, ASSIGNMENT)
    assert [one for one in history.changes if isinstance(one, RegistrationChange)] == [
        RegistrationChange(3, 2, 1, True)
    ]
    assert cluster.znodes == {"/kept/a": b"x"}
    reader.changed(6, 5, "/brokers/topics/t", None, 0, 0)
    assert history.names() == {}


def test_leader_outside_of_the_isr_is_unclean() -> None:
    was = PartitionSnapshot(LeaderAndIsr(-1, 1, (1,), 1, 1), ASSIGNMENT)
    assert is_unclean(was, PartitionSnapshot(LeaderAndIsr(2, 2, (2,), 2, 1), ASSIGNMENT))
    assert not is_unclean(was, PartitionSnapshot(LeaderAndIsr(1, 2, (1,), 2, 1), ASSIGNMENT))
    assert not is_unclean(PartitionSnapshot(), was)
