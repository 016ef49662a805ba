"""Topics and partitions that appear during an incident."""

from controller.core.values import Assignment
from replay.what_if.causes import ExternalCause
from replay.what_if.history import ClusterHistory, PartitionSnapshot
from replay.what_if.new_partitions import with_creations
from replay.world.inputs import CreatePartitions, CreateTopic


def history(*appearing: tuple[int, str, int, tuple[int, ...]]) -> ClusterHistory:
    found = ClusterHistory()
    for at_ms, topic, number, replicas in appearing:
        found.note_partition(
            at_ms, at_ms, (topic, number), PartitionSnapshot(None, Assignment(replicas))
        )
    return found


def test_partitions_of_the_beginning_were_not_created() -> None:
    assert with_creations(history((1, "t", 0, (1,))), [], 1) == []


def test_request_has_the_replicas_that_the_controller_chose() -> None:
    asked = ExternalCause(40, 4_000, CreateTopic(4_000, "t", ((9,),), {"a": "b"}))
    found = with_creations(history((4_005, "t", 0, (1, 2)), (4_006, "t", 1, (2, 1))), [asked], 1)
    created = CreateTopic(4_000, "t", ((1, 2), (2, 1)), {"a": "b"})
    assert found == [ExternalCause(40, 4_000, created, 4_005, is_certain=True)]


def test_request_that_created_nothing_is_no_cause() -> None:
    asked = ExternalCause(40, 4_000, CreateTopic(4_000, "t", ((9,),)))
    assert with_creations(history((1, "u", 0, (1,))), [asked], 1) == []


def test_partitions_without_a_request_were_written_to_zookeeper() -> None:
    found = with_creations(
        history((1, "t", 0, (1,)), (500, "t", 1, (2,)), (900, "u", 0, (3,))), [], 1
    )
    assert [one.what for one in found] == [
        CreatePartitions(500, "t", ((2,),), "znode"),
        CreateTopic(900, "u", ((3,),), {}, "znode_with_id"),
    ]


def test_topic_that_was_deleted_is_created_again() -> None:
    found = history((1, "t", 0, (1,)))
    found.note_partition(500, 500, ("t", 0), None)
    found.note_partition(900, 900, ("t", 0), PartitionSnapshot(None, Assignment((2,))))
    found.note_partition(900, 900, ("t", 1), PartitionSnapshot(None, Assignment((3,))))
    (created,) = with_creations(found, [], 1)
    assert created.what == CreateTopic(900, "t", ((2,), (3,)), {}, "znode_with_id")


def test_added_partitions_are_not_those_of_the_request_for_the_topic() -> None:
    asked = ExternalCause(40, 4_000, CreateTopic(4_000, "t", ((1,),)))
    found = with_creations(history((4_005, "t", 0, (1,)), (8_000, "t", 1, (2,))), [asked], 1)
    assert [(one.at_ms, type(one.what)) for one in found] == [
        (4_000, CreateTopic),
        (8_000, CreatePartitions),
    ]
