"""Prefixes, other logs, interrupted steps and retries, which the page and recordings lack."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from controller.core import znodes
from controller.core.commands import ReadZnodes
from controller.core.events import TopicIdsDrawn
from controller.core.fold import Fold
from controller.core.procedures.reassignment.leader_epochs import RAISE
from eventstore.folders import segments_of
from eventstore.reader import LogReader
from replay.errors import OtherCoreError, ReplayError
from replay.kafka_text.kafka_log import KafkaLogLine
from replay.kafka_text.rendering import Rendering, kafka_lines
from replay.logs.decode import UPCASTERS
from replay.logs.snapshots import make_snapshots
from tests.controller.core.cluster import Cluster, by_rule, reads, writes_state
from tests.controller.core.unreliable import Delivery
from tests.replay.kafka_text import scenes
from tests.replay.kafka_text.rendering import lines_of, messages
from tests.replay.logs.test_snapshots import rolled_log
from tests.replay.recorded_log import incident, write_log


def lines_in(log: Path) -> list[KafkaLogLine]:
    with LogReader.open(log, UPCASTERS) as reader:
        return list(kafka_lines(reader))


def test_line_has_log4js_layout() -> None:
    message = "[Controller id=1000] Resigned"
    line = KafkaLogLine(
        7, 1_767_225_600_123_999_999, "INFO", message, "kafka.controller.KafkaController"
    )
    assert line.text == (
        "[2026-01-01 00:00:00,123] INFO [Controller id=1000] Resigned "
        "(kafka.controller.KafkaController)"
    )
    bad = line._replace(level="ERROR", exception="java.io.IOException: refused")
    assert bad.text.splitlines()[1] == "java.io.IOException: refused"


def test_lines_have_the_times_of_their_events() -> None:
    cluster = scenes.broker_dies_and_returns()
    clocks = {event.seq: event.wall_ns for event, _ in cluster.history}
    lines = lines_of(cluster)
    assert [line.seq for line in lines] == sorted(line.seq for line in lines)
    assert all(clocks[line.seq] == line.wall_ns for line in lines)


def test_requests_of_tools_have_the_lines_of_brokers_writes() -> None:
    """Kafka's controller sees only the znodes."""
    by_request = scenes.topics_by_request()
    by_znode = Cluster(1, 2).start()
    [drawn] = [
        one.event.topic_ids[0]
        for one, _ in by_request.history
        if isinstance(one.event, TopicIdsDrawn)
    ]
    topic_id = znodes.write_topic_id(drawn)
    by_znode.create_topic("t", {0: [1, 2]}, topic_id=topic_id)
    by_znode.create_topic("t", {0: [1, 2], 1: [2, 1]}, topic_id=topic_id)
    by_znode.put(znodes.delete_topic_path("t"), b"")
    assert messages(by_request) == messages(by_znode)


def test_allocated_producer_ids_are_logged() -> None:
    lines = messages(scenes.producer_ids_are_allocated_and_refused())
    assert [one for one in lines if one.startswith("Acquired")] == [
        "Acquired new producerId block ProducerIdsBlock(assignedBrokerId=1, firstProducerId=0, "
        "size=1000) by writing to Zk with path version 0",
        "Acquired new producerId block ProducerIdsBlock(assignedBrokerId=2, firstProducerId=1000, "
        "size=1000) by writing to Zk with path version 1",
    ]


@pytest.mark.parametrize(("before", "map_name"), [(2, "Map"), (3, "Map"), (4, "HashMap")])
def test_added_partitions_are_printed_as_a_filtered_map(before: int, map_name: str) -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {one: [1] for one in range(before)})
    cluster.create_topic("t", {one: [1] for one in range(before + 1)})
    assignment = "ReplicaAssignment(replicas=1, addingReplicas=, removingReplicas=)"
    line = f"New partitions to be added {map_name}(t-{before} -> {assignment})"
    assert line in messages(cluster)


@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda one: one.__name__)
def test_rendering_does_not_change_the_decisions(scene: Callable[[], Cluster]) -> None:
    cluster = scene()
    fold = Fold(cluster.fold.controller.configuration)
    Rendering(fold)
    for recorded, issued in cluster.history:
        assert [one for part in fold.apply(recorded) for one in part] == issued


# Logs of other cores, and without segments ------------------------------------------------------


def test_log_without_its_first_segments_has_the_remaining_lines(tmp_path: Path) -> None:
    """The remaining log is folded from a snapshot, and has the same lines."""
    folder = tmp_path / "log"
    rolled_log(folder)
    whole = lines_in(folder)
    make_snapshots(folder)
    for segment in segments_of(folder)[:-2]:
        segment.unlink()
    rest = lines_in(folder)
    assert rest == [line for line in whole if line.seq >= rest[0].seq]
    assert any("New broker startup callback for 1" in line.message for line in rest)


def test_log_of_another_core_with_equal_decisions_has_the_same_lines(
    tmp_path: Path,
) -> None:
    other = write_log(tmp_path / "other", incident(), fingerprint="another")
    same = write_log(tmp_path / "same", incident())
    assert lines_in(other) == lines_in(same)


def test_log_of_another_core_is_refused_at_the_first_different_decision(tmp_path: Path) -> None:
    simulation = incident()
    place = next(n for n, (_, issued) in enumerate(simulation.history) if len(issued) > 2)
    recorded, issued = simulation.history[place]
    simulation.history[place] = (recorded, issued[:-1])
    log = write_log(tmp_path / "log", simulation, fingerprint="another")
    with pytest.raises(OtherCoreError, match=f"core another .*; from event {recorded.seq} on"):
        lines_in(log)


def test_imported_log_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident())
    with LogReader.open(log, UPCASTERS) as reader:
        reader.header = msgspec.structs.replace(reader.header, kind="world-backed")
        with pytest.raises(ReplayError, match="imported log"):
            next(kafka_lines(reader))


# Interrupted steps and retries -------------------------------------------------------------------


def test_step_interrupted_by_the_end_of_the_session_is_logged_when_repeated() -> None:
    cluster = scenes.three_brokers()
    before = len(cluster.history)
    cluster.lose(writes_state("t", 0), Delivery.SESSION_OVER)
    cluster.stop_broker(1)
    lines = messages(cluster, before)
    over = lines.index("Stopped partition state machine")
    assert not any("t-0" in one for one in lines[:over])
    assert any(re.match("Changed partition t-0 from OfflinePartition", one) for one in lines[over:])
    assert not any("failed to change state for partition t-0" in one for one in lines)


@pytest.mark.parametrize(
    "lost", [reads(znodes.BROKER_IDS), reads(znodes.broker_path(2))], ids=["list", "registrations"]
)
def test_repeated_broker_change_is_logged_once(lost: Callable[..., bool]) -> None:
    cluster = scenes.three_brokers()
    before = len(cluster.history)
    cluster.lose(lost, Delivery.REQUEST_LOST)
    cluster.stop_broker(1)
    lines = [one for one in messages(cluster, before) if one.startswith("Newly added brokers")]
    assert lines == [
        "Newly added brokers: , deleted brokers: 1, bounced brokers: , all live brokers: 2,3"
    ]


def reassigned(lose: Callable[[Cluster], None]) -> list[str]:
    """The messages when a replica is added to t-0 and a part of the work is repeated."""
    cluster = scenes.three_brokers(inter_broker_protocol_version=scenes.OLD)
    cluster.start_broker(4)
    scenes.request_reassignment(cluster, ("t", 0, [1, 2, 4]))
    before = len(cluster.history)
    cluster.set_isr("t", 0, [1, 2, 3, 4])
    lose(cluster)
    cluster.run()
    return messages(cluster, before)


def test_repeated_check_of_target_replicas_is_logged_once() -> None:
    def lose(cluster: Cluster) -> None:
        cluster.lose(reads(znodes.state_path("t", 0)), Delivery.REQUEST_LOST)

    lines = [one for one in reassigned(lose) if one.startswith("Target replicas")]
    assert lines == [
        "Target replicas ArrayBuffer(1, 2, 4) have all caught up with the leader for "
        "reassigning partition t-0"
    ]


def test_leader_that_stays_is_logged_once() -> None:
    def lose(cluster: Cluster) -> None:
        cluster.lose(by_rule(ReadZnodes, RAISE), Delivery.REQUEST_LOST)

    lines = [one for one in reassigned(lose) if one.startswith("Leader 1 for partition t-0")]
    assert lines == [
        "Leader 1 for partition t-0 being reassigned, is already in the new list of replicas "
        "1,2,4 and is alive"
    ]
