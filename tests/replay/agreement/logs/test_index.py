"""The index of a log returns facts that a comparison needs before it reaches their records."""

import base64
import json
from typing import Any

import pytest

from controller.core import operations, znodes
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.protocol_versions import LATEST
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    RequestServed,
    StateChangeLogged,
)
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    CreateSession,
    Delete,
    Error,
    SetData,
)
from tests.replay.agreement.sample_log import Log
from tests.replay.agreement.view import (
    OTHER,
    STATE,
    TOPIC,
    Tree,
    create,
    state_json,
    topic_json,
)

FIRST, SECOND = b"1" * 16, b"2" * 16
DELETION = "/admin/delete_topics/t"


def with_id(topic_id: bytes | None, *replicas: list[int], **more: Any) -> bytes:
    text = base64.urlsafe_b64encode(topic_id or b"").decode().rstrip("=")
    return topic_json(*replicas or ([1],), topic_id=text or None, **more)


# Topic ids ------------------------------------------------------------------------------------


def test_next_topic_id_is_the_first_one_after_a_record() -> None:
    """A topic that is deleted and created again has another id."""
    log = Log()
    log.write(create(TOPIC, with_id(None)))
    first = log.decide(SetData(TOPIC, with_id(FIRST), 1))
    log.decide(SetData(TOPIC, with_id(FIRST, [1], [2]), 2))
    log.decide(Delete(TOPIC))
    second = log.decide(SetData(TOPIC, with_id(SECOND), 1))
    index = log.index()
    assert index.next_topic_id("t", 0) == index.next_topic_id("t", first - 1) == FIRST
    assert index.next_topic_id("t", first) == index.next_topic_id("t", second - 1) == SECOND
    assert index.next_topic_id("t", second) is None
    assert index.next_topic_id("u", 0) is None


def test_chroot_is_removed_from_paths() -> None:
    log = Log("/prod")
    log.decide(SetData(f"/prod{TOPIC}", with_id(FIRST), 1))
    log.decide(SetData(f"/prod{STATE}", state_json(1, 0, 1), 1))
    index = log.index()
    assert index.next_topic_id("t", 0) == FIRST
    assert index.paths_after(7, 0, 9) == {TOPIC, STATE}
    assert index.first_writes(7, 0)["t", 0] == 1


@pytest.mark.parametrize("elsewhere", ["", "/prod2"])
def test_another_cluster_is_ignored(elsewhere: str) -> None:
    log = Log("/prod")
    log.decide(SetData(f"{elsewhere}{TOPIC}", with_id(FIRST), 1))
    log.write(create(f"{elsewhere}/brokers/ids/5"), session=8)
    index = log.index()
    assert index.next_topic_id("t", 0) is None
    assert index.paths_after(7, 0, 9) == {""}
    assert index.first_writes(7, 0) == {}


# Protocol versions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "feature", "version"),
    [(4, 1, "2.7"), (5, 1, "3.1"), (6, 1, "3.2"), (6, 2, "3.3"), (7, 2, LATEST)],
)
def test_protocol_version_follows_from_leader_and_isr(
    sent: int, feature: int, version: str
) -> None:
    log = Log()
    log.register(5)
    log.elect(3)
    log.serve("LEADER_AND_ISR", sent, {"controllerEpoch": 3})
    assert log.index(feature).protocol_version(7) == version


def test_each_process_has_a_protocol_version() -> None:
    """Brokers are upgraded to another protocol version one at a time."""
    log = Log()
    log.register(4, session=7)
    log.register(5, session=8, broker=2)
    log.register(5, session=9, broker=3)
    log.elect(1, session=8)
    log.elect(2, session=9)
    log.serve("LEADER_AND_ISR", 4, {"controllerEpoch": 1})
    log.serve("LEADER_AND_ISR", 7, {"controllerEpoch": 2})
    index = log.index(2)
    assert [index.protocol_version(one) for one in (7, 8, 9)] == ["2.6", "2.7", LATEST]


def test_protocol_version_follows_from_the_writes_of_a_process() -> None:
    """No log records what the process sent."""
    log = Log()
    log.register(5, session=7)
    log.register(5, session=8)
    log.write(SetData("/feature", b'{"version":2,"status":1,"features":{}}', 1), session=8)
    log.register(5, session=9)
    log.decide(SetData(STATE, state_json(1, 0, 1, leader_recovery_state=0), 1), session=9)
    index = log.index(1)
    assert [index.protocol_version(one) for one in (7, 8, 9)] == [LATEST, LATEST, LATEST]
    without = Log()
    without.decide(SetData(STATE, state_json(1, 0, 1, leader_recovery_state=0), 1), session=9)
    assert without.index(1).protocol_version(9) == "3.2"
    assert without.index(1).protocol_version(7) == "2.7"
    assert without.index(2).protocol_version(7) == LATEST


def test_topic_id_shows_version_2_8_or_later() -> None:
    log = Log()
    log.register(5)
    assert log.index().protocol_version(7) == "2.7"
    log.decide(SetData(TOPIC, with_id(FIRST), 1))
    assert log.index().protocol_version(7) == "3.1"


def test_process_that_creates_a_partition_without_a_topic_id_is_older_than_2_8() -> None:
    """Topic ids of other processes have no influence."""
    log = Log()
    log.register(5, session=7)
    log.register(5, session=8)
    log.decide(SetData(TOPIC, with_id(FIRST), 1), session=8)
    log.write(create("/brokers/topics/other", with_id(None)), session=9)
    state = state_json(1, 0, 1)
    log.decide(create("/brokers/topics/other/partitions/0/state", state), session=7)
    index = log.index()
    assert [index.protocol_version(one) for one in (7, 8)] == ["2.7", "3.1"]


def test_unreadable_content_is_ignored() -> None:
    log = Log()
    log.register(5)
    log.write(SetData("/feature", b"{", 1))
    log.write(SetData(TOPIC, b"{", 1))
    log.write(SetData(STATE, b"\xff", 1))
    log.add(RequestServed(1, "LEADER_AND_ISR", 7, "2", 1, "", 5, b"{", b"{}"))
    log.add(RequestServed(1, "ALTER_PARTITION", 3, "2", 1, "", 5, b"{", b"{}"))
    index = log.index()
    assert index.protocol_version(7) == "2.7"
    assert index.received_requests == {}
    assert index.request_logs_of == {1}


def test_protocol_version_before_the_log_follows_from_the_first_state() -> None:
    """Their registrations and topics are in the first state only."""
    first = Tree()
    registration = {"version": 4, "host": "h", "port": 1, "endpoints": []}
    first.put("/brokers/ids/1", json.dumps(registration).encode())
    assert Log().index_from(first).protocol_version(0) == "2.6"
    first.put("/brokers/ids/1", json.dumps(registration | {"version": 5}).encode())
    assert Log().index_from(first).protocol_version(0) == "2.7"
    first.put(TOPIC, topic_json())
    assert Log().index_from(first).protocol_version(0) == "3.1"


def test_unreadable_registration_causes_no_traceback() -> None:
    log = Log()
    log.write(create("/brokers/ids/9", b"{"))
    assert log.index().protocol_version(7) == "2.7"


# Requests -------------------------------------------------------------------------------------


def test_requests_are_in_the_order_in_which_they_were_received() -> None:
    log = Log()
    late = log.serve("ALLOCATE_PRODUCER_IDS", 0, {"brokerId": 2, "brokerEpoch": 5}, 30)
    early = log.serve("ALLOCATE_PRODUCER_IDS", 0, {"brokerId": 3, "brokerEpoch": 6}, 20)
    log.serve("LEADER_AND_ISR", 7, {"controllerEpoch": 3}, 10)
    found = log.index().received_requests[1]
    assert [one.received_ms for one in found] == [20, 30]
    assert [one.answered_seq for one in found] == [early, late]
    assert found[0].request == AllocateProducerIdsReceived(early, 0, 3, 6)


def test_states_with_successive_cxids_were_written_together() -> None:
    log = Log()
    names = [("t", number) for number in range(4)]
    first, *_ = [
        log.decide(SetData(znodes.state_path(*name), b"{}", 2), cxid=cxid)
        for name, cxid in zip(names, (5, 6, 7, 9), strict=True)
    ]
    index = log.index()
    assert index.written_with(7, first) == names[:3]
    assert index.written_with(7, first + 1) == names[1:3]
    assert index.written_with(8, first) == []


def test_state_that_is_written_later_is_not_part_of_the_batch() -> None:
    log = Log()
    names = [("t", number) for number in range(3)]
    first, *_ = [
        log.decide(SetData(znodes.state_path(*name), b"{}", 2), cxid=cxid, time_ms=time_ms)
        for name, cxid, time_ms in zip(names, (5, 6, 7), (100, 102, 210), strict=True)
    ]
    assert log.index().written_with(7, first) == names[:2]


# Deletions ------------------------------------------------------------------------------------


def test_deleted_marker_of_a_remaining_topic_shows_that_deletion_is_disabled() -> None:
    log = Log()
    log.decide(Delete(DELETION), session=8, what="topic_deletion")
    assert log.index(topics=("t",)).keeps_topics == {8}
    assert log.index().keeps_topics == set()


def test_deleted_marker_of_a_deleted_topic_shows_no_disabled_deletion() -> None:
    log = Log()
    log.write(create(TOPIC, with_id(FIRST)))
    log.decide(Delete(TOPIC), what="topic_deletion")
    log.decide(Delete(DELETION), what="topic_deletion")
    assert log.index().keeps_topics == set()


def test_topic_that_was_created_again_counts_as_remaining() -> None:
    log = Log()
    log.decide(Delete(TOPIC), what="topic_deletion")
    log.write(create(TOPIC, with_id(FIRST)))
    log.decide(Delete(DELETION), what="topic_deletion")
    assert log.index(topics=("t",)).keeps_topics == {7}


def test_marker_that_was_deleted_by_hand_is_ignored() -> None:
    log = Log()
    log.write(Delete(DELETION))
    assert log.index(topics=("t",)).keeps_topics == set()


# Writes ---------------------------------------------------------------------------------------


def test_next_writes_are_those_of_one_session() -> None:
    log = Log()
    first = log.decide(SetData(STATE, b"{}", 1))
    log.decide(SetData(OTHER, b"{}", 1), session=8)
    log.write(SetData("/brokers", b"{}", 1))
    second = log.decide(Delete(DELETION), what="topic_deletion")
    index = log.index()
    assert index.paths_after(7, 0, 9) == {STATE, DELETION}
    assert index.paths_after(7, 0, 1) == {STATE}
    assert index.paths_after(7, first, 9) == {DELETION}
    assert index.paths_after(7, second, 9) == index.paths_after(9, 0, 9) == set()
    assert index.paths_after(8, 0, 9) == {OTHER}


def test_next_writes_are_those_of_one_term() -> None:
    log = Log()
    log.decide(SetData(STATE, b"{}", 1))
    log.decide(Delete(znodes.CONTROLLER), what="resignation")
    elected = log.decide(create(znodes.CONTROLLER), SetData("/controller_epoch", b"2", 2))
    log.decide(SetData(OTHER, b"{}", 1))
    index = log.index()
    assert index.paths_after(7, 0, 9) == {STATE, znodes.CONTROLLER}
    assert index.paths_after(7, elected, 9) == {OTHER}


def test_reassignments_that_are_requested_later_are_other_writes() -> None:
    """A tool creates the znode again; until then the controller may still write it."""
    requests = znodes.REASSIGN_PARTITIONS
    log = Log()
    first = log.decide(SetData(requests, b"{}", 1), what="reassign_partitions")
    log.decide(SetData(STATE, b"{}", 1))
    log.write(Delete(requests), session=9)
    created = log.write(create(requests), session=9)
    log.decide(SetData(requests, b"{}", 1), what="reassign_partitions")
    index = log.index()
    assert index.paths_after(7, 0, 9) == {requests, STATE}
    assert index.paths_after(7, first, 9) == {STATE}
    assert index.paths_after(7, created, 9) == {requests}


def test_reassignments_that_a_controller_writes_again_are_found() -> None:
    """The controller itself creates the znode if a tool has deleted it meanwhile."""
    log = Log()
    log.decide(create(znodes.REASSIGN_PARTITIONS), what="reassign_partitions")
    assert log.index().paths_after(7, 0, 9) == {znodes.REASSIGN_PARTITIONS}


def test_refused_writes_have_no_path() -> None:
    log = Log()
    log.decide(Error(operations.BAD_VERSION), what="refused")
    index = log.index()
    assert index.paths_after(7, 0, 9) == set()
    assert index.first_writes(7, 0) == {}


def test_first_write_of_each_partition_and_topic_is_found() -> None:
    """A write of a topic's znode counts for the partitions whose assignment it changes. Writes
    after the end of the term belong to another failover."""
    log = Log()
    log.write(create(TOPIC, with_id(FIRST, [1], [2])))
    moved = log.decide(SetData(TOPIC, with_id(FIRST, [1], [2, 3]), 1), what="assignment")
    led = log.decide(SetData(STATE, b"{}", 1))
    log.decide(SetData(STATE, b"{}", 2))
    log.decide(Delete(znodes.CONTROLLER), what="resignation")
    log.decide(SetData(OTHER, b"{}", 1))
    index = log.index()
    assert index.first_writes(7, 0) == {("t", 0): led, ("t", 1): moved, ("t", -1): moved}
    assert index.first_writes(7, moved) == {("t", 0): led, ("t", -1): led}
    assert index.first_writes(8, 0) == {}


@pytest.mark.parametrize(("sent", "version"), [(1, "2.4-IV0"), (2, "2.5"), (3, "2.6")])
def test_older_protocol_version_follows_from_stop_replica(sent: int, version: str) -> None:
    log = Log()
    log.register(4)
    log.elect(3)
    log.serve("STOP_REPLICA", sent, {"controllerEpoch": 3})
    assert log.index().protocol_version(7) == version


# Brokers --------------------------------------------------------------------------------------


def test_brokers_that_close_their_sessions_are_found() -> None:
    """A session that expires is closed by ZooKeeper: with cxid 0."""
    log = Log()
    for broker in (1, 2, 3):
        log.register(5, session=broker, broker=broker)
    end = CloseSession(())
    expired = log.write(end, session=1, cxid=0, time_ms=10)
    log.write(end, session=2, cxid=4, time_ms=20)
    log.write(end, session=3, cxid=4, time_ms=30)
    log.write(end, session=9, cxid=4, time_ms=40)
    index = log.index()
    assert list(index.closing(0, 100)) == [2, 3]
    assert list(index.closing(expired, 20)) == [2]
    assert list(index.closing(expired + 1, 100)) == [3]


def test_broker_is_unresponsive_before_its_session_expires() -> None:
    """A broker that closes its session, or whose session continues, is responsive."""
    log = Log()
    for broker in (1, 2):
        log.write(CreateSession(6000), session=broker)
        log.register(5, session=broker, broker=broker)
    end = CloseSession(())
    log.write(end, session=1, cxid=0, time_ms=10_000)
    log.write(end, session=2, cxid=4, time_ms=10_000)
    index = log.index()
    times = (3_999, 4_000, 9_999, 10_000)
    assert [index.is_responsive(1, one) for one in times] == [True, False, False, True]
    assert all(index.is_responsive(broker, one) for broker in (2, 3) for one in times)


def test_session_that_creates_existing_znodes_is_the_first_of_its_process() -> None:
    """If the process does so in a later session, a broker registers first."""
    log = Log()
    for session in (1, 2):
        log.write(CreateSession(6000), session=session)
    log.write(Error(-110), session=1)
    for session in (1, 2):
        log.register(5, session=session)
    assert log.index().starts == {1}


def test_available_logs_are_found_by_broker_and_term() -> None:
    log = Log()
    log.serve("CREATE_TOPICS", 5, {})
    log.add(StateChangeLogged(2, 4, "state", [], ""))
    log.add(ControllerLogged(2, "TopicChange", "[Controller id=2] New topics: [Set(t)], deleted"))
    assert not log.index().has_debug(2, 7)
    assert log.index().has_log(2, 7)
    log.add(ControllerLogged(3, "", "[Controller id=3] Register BrokerModifications handler for"))
    index = log.index()
    assert index.request_logs_of == {1}
    assert index.state_changes_of == {(2, 4)}
    assert not index.has_log(3, 7)


def test_consumed_marker_is_not_returned_again() -> None:
    log = Log()
    log.write(SetData(TOPIC, b"{}", 1))
    texts = ["Unclean leader election has been enabled by default", "Resigning"]
    events = ["UncleanLeaderElectionEnable", "Resignation"]
    first, second = (
        log.add(ControllerLogged(2, event, f"[Controller id=2] {text}"))
        for event, text in zip(events, texts, strict=True)
    )
    index = log.index()
    one = index.next_marker(2, 7, 0)
    assert one is not None
    assert (one.seq, one.time_ms, one.marker.event) == (first, 1000 * first, events[0])
    index.consume(one)
    assert index.is_consumed(first)
    assert not index.is_consumed(second)
    following = index.next_marker(2, 7, 0)
    assert following is not None
    assert following.seq == second
    assert index.next_marker(2, 7, second) is None
    assert index.next_marker(3, 7, 0) is None
    assert index.last_transaction == 1
