"""Answers from a log of the daemon, for each kind of question."""

import re
from pathlib import Path

import pytest
from msgspec import structs

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.events import ChannelFault, SessionDisconnected
from replay.errors import ReplayError
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import controlled_shutdown, next_request
from tests.controller.core.procedures.elections.electing import elect
from tests.controller.core.procedures.reassignment.reassigning import (
    ask_for_isr,
    catch_up,
    elect_preferred,
)
from tests.controller.core.procedures.topics.deleting import mark
from tests.replay.recorded_log import with_an_impossible_outcome, write_log
from tests.replay.why.asked import asked, first, plain, why

T0 = {"topic": "t", "partition": 0}


# Partitions ---------------------------------------------------------------------------------------


def test_why_explains_the_first_leader(tmp_path: Path) -> None:
    cluster = Cluster(2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    assert first(cluster, tmp_path, **T0) == (
        "t-0 has had leader 2 since event N: the partition was new, and it is the first replica "
        "that was online; passed over: 1 is not online. Broker 1 is not in the ISR of t-0: it "
        "never was in this log; now it is not registered."
    )


def test_why_explains_the_leader_after_the_death_of_the_previous_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    ask_for_isr(cluster, 1, 3)
    cluster.stop_broker(1)
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has had leader 3 since event N: the registration of broker 1 is gone (event N), and "
        "broker 1 was the leader; 3 is the first replica that was online and in sync; passed over: "
        "1 is not online, 2 is not in sync. "
    )


def test_why_explains_an_offline_partition(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    answer = why(cluster, tmp_path, **T0)
    assert plain(answer.answer) == (
        "t-0 has been offline since event N: the registration of broker 1 is gone (event N), and "
        "broker 1 was the leader; no replica could lead at event N: 1 is not online, 2 is not in "
        "sync, 3 is not in sync. Only broker 1 is in the ISR. The partition is online again "
        "when broker 1 returns, or after an unclean election, which may lose records."
    )
    numbers = [one.seq for one in answer.chain]
    assert numbers == sorted(numbers, reverse=True)


def test_candidates_of_a_failed_election_are_in_the_chain(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    failed = next(one for one in why(cluster, tmp_path, **T0).chain if one.kind == "no_leader")
    assert [(one.broker, one.why) for one in failed.passed_over] == [
        (1, "not online"),
        (2, "not in sync"),
        (3, "not in sync"),
    ]
    assert failed.rule == "offline partition leader election"
    assert failed.because is not None
    assert failed.because.procedure == "BrokerChange"
    assert failed.because.text == "watch of /brokers/ids: the children changed"


def test_why_explains_the_return_of_the_broker_in_sync(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has had leader 1 since event N: it had no leader, and broker 1 has registered (event "
        "N); 1 is the first replica that was online and in sync. Broker 2 has not been in the ISR "
        "of t-0 since event N: its leader, broker 1, asked for ISR 1, as leaders do with a "
        "follower that lags behind or is gone; now it is live, but has not caught up."
    )


def test_why_explains_a_leader_that_died_without_a_controller(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The earlier registration of broker 2 had no effect."""
    cluster.expire()
    cluster.unregister(1)
    cluster.connect()
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has had leader 2 since event N: its leader, broker 1, was no longer online, so that "
        "it had none from event N on; the failover of term 3 of broker 1000, controller since "
        "event N, elected 2; 2 is the first replica that was online and in sync; passed over: 1 "
        "is not online. "
    )


def test_why_explains_a_requested_unclean_leader(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    elect(cluster, "unclean", ("t", 0))
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has had leader 2 since event N: a client requested an election; no replica in sync "
        "was online, so by an unclean election, as requested, 2 leads as the first replica that "
        "was online; passed over: 1 is not online, 3 is not in sync. "
    )


def test_why_explains_an_unclean_leader_allowed_by_settings(tmp_path: Path) -> None:
    cluster = Cluster(1, 2, 3, unclean_leader_election_enable=True).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    assert (
        "so by an unclean election, which the topic's settings allow, 2 leads as the first replica "
        "that was online; passed over: 1 is not online, 3 is not in sync."
    ) in first(cluster, tmp_path, **T0)


def test_why_explains_the_leader_after_a_controlled_shutdown(
    cluster: Cluster, tmp_path: Path
) -> None:
    controlled_shutdown(cluster, 1)
    answer = first(cluster, tmp_path, **T0)
    assert answer.startswith("t-0 has had leader 2 since event N: ")
    assert "broker 1 asked for a controlled shutdown" in answer
    assert "passed over: 1 is shutting down" in answer


def test_why_explains_a_preferred_leader(cluster: Cluster, tmp_path: Path) -> None:
    cluster.stop_broker(1)
    cluster.start_broker(1)
    catch_up(cluster, 1)
    number = next_request(cluster)
    elect_preferred(cluster)
    assert first(cluster, tmp_path, **T0) == (
        "t-0 has had leader 1 since event N: it is the preferred replica, as requested by "
        f"ElectLeaders, request {number}, preferred: t-0."
    )


def test_why_reports_a_leader_found_in_zookeeper(cluster: Cluster, tmp_path: Path) -> None:
    session = cluster.seize_role(2)
    cluster.run()
    state = cluster.leadership("t", 0)
    changed = structs.replace(state, leader=3, leader_epoch=7, isr=(3,))
    cluster.put_quietly(znodes.state_path("t", 0), znodes.write_state(changed))
    cluster.leave_role(session)
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has had leader 3 since event N: the controller found it in ZooKeeper, where another "
        "process had written it."
    )


def test_why_explains_a_partition_without_a_live_replica(tmp_path: Path) -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [8, 9]})
    assert first(cluster, tmp_path, **T0) == (
        "t-0 has never had a leader: at event N no replica is online; its replicas are 8,9."
    )


# Replicas and brokers -----------------------------------------------------------------------------


def test_why_explains_the_removal_from_the_isr_by_the_controller(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.stop_broker(3)
    assert first(cluster, tmp_path, **T0, broker=3) == (
        "Broker 3 has not been in the ISR of t-0 since event N: the registration of broker 3 is "
        "gone (event N), and the controller removed it (remove 3 from ISR); now it is not "
        "registered."
    )


def test_why_explains_the_removal_from_the_isr_by_the_leader(
    cluster: Cluster, tmp_path: Path
) -> None:
    ask_for_isr(cluster, 1, 3)
    assert first(cluster, tmp_path, **T0, broker=2) == (
        "Broker 2 has not been in the ISR of t-0 since event N: its leader, broker 1, asked for "
        "ISR 1,3, as leaders do with a follower that lags behind or is gone; now it is live, but "
        "has not caught up."
    )


def test_why_explains_the_return_to_the_isr(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1, 3)
    catch_up(cluster, 2)
    assert first(cluster, tmp_path, **T0, broker=2) == (
        "Broker 2 has been in the ISR of t-0 since event N: AlterPartition: t-0 still leader 1, "
        "ISR 1,3 -> 1,3,2, leader epoch 0."
    )


def test_why_reports_a_broker_without_a_replica(cluster: Cluster, tmp_path: Path) -> None:
    assert first(cluster, tmp_path, **T0, broker=9) == (
        "Broker 9 has no replica of t-0: its replicas are 1,2,3."
    )


def test_why_explains_an_unregistered_broker(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    assert first(cluster, tmp_path, broker=1) == (
        "Broker 1 has not been registered since event N: the registration of broker 1 is gone. It "
        "has 1 replica, leads 0, and is in all their ISRs; t-0 is offline without it."
    )


def test_why_explains_a_broker_after_a_controlled_shutdown(
    cluster: Cluster, tmp_path: Path
) -> None:
    controlled_shutdown(cluster, 1)
    cluster.stop_broker(1)
    assert first(cluster, tmp_path, broker=1) == (
        "Broker 1 has not been registered since event N: the registration of broker 1 is gone, "
        "after it asked for a controlled shutdown (event N). It has 1 replica, leads 0, and is "
        "out of the ISR of t-0."
    )


def test_why_does_not_attribute_a_later_death_to_a_controlled_shutdown(
    cluster: Cluster, tmp_path: Path
) -> None:
    controlled_shutdown(cluster, 1)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    cluster.stop_broker(1)
    assert first(cluster, tmp_path, broker=1).startswith(
        "Broker 1 has not been registered since event N: the registration of broker 1 is gone. It "
        "has"
    )


def test_cause_of_a_queued_event_is_what_queued_it(cluster: Cluster, tmp_path: Path) -> None:
    """Its cause is the event that queued it, not the event that the controller processed before."""
    cluster.once(
        lambda issued: isinstance(issued.command, WriteZnodes),
        lambda: cluster.change_topic_quietly("u", {0: [2, 3]}),
    )
    cluster.stop_broker(1)
    answer = why(cluster, tmp_path, topic="u", partition=0)
    written = next(one for one in answer.chain if one.rule == "create first leader")
    assert written.because is not None
    assert written.because.text == "watch of /brokers/topics: the children changed"
    assert written.because.procedure == "TopicChange"


# Topics -------------------------------------------------------------------------------------------


def test_why_explains_a_deletion_blocked_by_a_broker(cluster: Cluster, tmp_path: Path) -> None:
    cluster.stop_broker(2)
    mark(cluster, "t")
    blocked = (
        "The deletion of t has been blocked since event N: replicas of it are on broker 2, which "
        "is not online: the registration of broker 2 is gone (event N)."
    )
    assert first(cluster, tmp_path, topic="t") == blocked
    assert first(cluster, tmp_path, **T0) == (f"t-0 is being deleted with its topic. {blocked}")


def test_why_reports_a_deleted_topic(cluster: Cluster, tmp_path: Path) -> None:
    mark(cluster, "t")
    answer = first(cluster, tmp_path, **T0)
    assert answer.startswith("There is no topic t any more at event N: topic t is deleted")


def test_why_lists_the_partitions_of_a_topic_with_problems(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("u", {0: [1, 2], 1: [3], 2: [2, 1]})
    cluster.stop_broker(3)
    assert first(cluster, tmp_path, topic="u") == (
        "u has 3 partitions: u-1 is offline. See --partition for the causes."
    )
    assert first(cluster, tmp_path, topic="t") == (
        "t has 1 partition: not all in sync: t-0 (lacks 3). See --partition for the causes."
    )


# Terms --------------------------------------------------------------------------------------------


def test_why_explains_a_term_that_ended_with_the_session(cluster: Cluster, tmp_path: Path) -> None:
    cluster.expire()
    assert "the ZooKeeper session is over" in first(cluster, tmp_path, term=1)
    assert first(cluster, tmp_path, term=1).startswith("Term 1 of broker 1000 ended at event N: ")
    role = "Broker 1000 has been controller of term 2 since event N"
    assert first(cluster, tmp_path).startswith(role)


def test_why_reports_the_time_without_events_before_a_session_ended(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The daemon was paused or disconnected."""
    cluster.now_ms += 7_000
    cluster.expire()
    assert re.match(
        r"Term 1 of broker 1000 ended at event N: the ZooKeeper session is over; nothing had been "
        r"observed for 7\.\d s before\. It had begun at event N\.",
        first(cluster, tmp_path, term=1),
    )


def test_time_between_a_lost_connection_and_the_end_of_the_session_is_no_silence(
    cluster: Cluster, tmp_path: Path
) -> None:
    """ZooKeeper hung; the daemon presumes the end of its session after the timeout."""
    cause = "nothing heard from zk:2181 for 12000 ms"
    cluster.happen(SessionDisconnected(cluster.session, cause), "session")
    cluster.now_ms += 6_000
    cluster.expire()
    answer = first(cluster, tmp_path, term=1)
    assert re.search(rf"; at event N, 6\.\d s before, the connection .* is lost: {cause}\.", answer)
    assert "nothing had been observed" not in answer


def test_why_names_the_lost_connection_before_the_end_of_a_term(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.happen(SessionDisconnected(cluster.session, "connection reset"), "session")
    cluster.now_ms += 500
    cluster.expire()
    assert re.search(
        r"; at event N, 0\.5 s before, the connection to ZooKeeper is lost: connection reset\.",
        first(cluster, tmp_path, term=1),
    )


def test_why_reports_that_another_controller_held_the_role(
    cluster: Cluster, tmp_path: Path
) -> None:
    session = cluster.seize_role(2)
    cluster.run()
    cluster.leave_role(session)
    assert first(cluster, tmp_path).endswith(
        ", and another controller had held the role since. Broker 1000 replaced broker 1000 (term "
        "1), after term 2 of another controller, with command 55.0, which created /controller and "
        "set /controller_epoch to 3."
    )


def test_why_explains_a_term_that_another_controller_ended(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.seize_role(2)
    cluster.run()
    answer = first(cluster, tmp_path, term=1)
    assert answer.startswith("Term 1 of broker 1000 ended at event N: ")
    assert "/controller" in answer
    assert first(cluster, tmp_path).startswith("Term 1 of broker 1000 ended at event N: ")


def test_why_explains_a_term_that_the_operator_ended(cluster: Cluster, tmp_path: Path) -> None:
    cluster.shut_down()
    assert first(cluster, tmp_path, term=1).startswith(
        "Term 1 of broker 1000 ended at event N: gave up the role (event N: shutdown requested: "
        "SIGTERM)."
    )


def test_signal_has_no_running_procedure_as_its_cause(cluster: Cluster, tmp_path: Path) -> None:
    cluster.once(lambda issued: isinstance(issued.command, WriteZnodes), cluster.shut_down_quietly)
    cluster.create_topic("u", {0: [2, 3]})
    signal_link = next(one for one in why(cluster, tmp_path).chain if "SIGTERM" in one.text)
    assert signal_link.because is None


def test_channel_fault_has_no_running_procedure_as_its_cause(
    cluster: Cluster, tmp_path: Path
) -> None:
    fault = ChannelFault(2, cluster.broker_epoch(2), "unreachable", "refused")
    cluster.once(
        lambda issued: isinstance(issued.command, WriteZnodes),
        lambda: cluster.happen_next(fault, "broker 2"),
    )
    cluster.create_topic("u", {0: [2, 3]})
    fault_link = next(
        one for one in why(cluster, tmp_path, broker=2).chain if "refused" in one.text
    )
    assert fault_link.because is None


def test_answer_after_the_loss_of_the_role_is_the_last_known_state(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.shut_down()
    answer = why(cluster, tmp_path, **T0)
    assert answer.answer.startswith("t-0 has had leader 1 since event ")
    assert "the answer is based on what it knew then" in answer.notes[0]


def test_answer_from_an_unclosed_log_has_a_note(cluster: Cluster, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", cluster, close=False)
    assert asked(log, **T0).notes == [
        "The log was not closed: its daemon was killed, or this copy was made before the daemon "
        "ended."
    ]
    assert asked(log, len(cluster.history) - 1, **T0).notes == []


# Logs of another core -----------------------------------------------------------------------------


def test_log_of_another_core_with_equal_decisions_has_a_note(
    cluster: Cluster, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log", cluster, fingerprint="0" * 24)
    answer = asked(log, **T0)
    assert answer.answer.startswith("t-0 has had leader 1 since event ")
    [note] = answer.notes
    assert note.startswith(f"Recorded by core {'0' * 24} (refold ")
    assert note.endswith("; this core decides the same up to here.")


def test_log_of_another_core_with_a_different_decision_has_a_note(
    cluster: Cluster, tmp_path: Path
) -> None:
    place = next(n for n, (_, issued) in enumerate(cluster.history) if len(issued) > 2)
    recorded, issued = cluster.history[place]
    cluster.history[place] = (recorded, issued[:-1])
    [note] = asked(write_log(tmp_path / "log", cluster, fingerprint="0" * 24), **T0).notes
    assert f"from event {recorded.seq} on, this core decides differently" in note


def test_log_of_another_core_that_cannot_be_folded_is_an_error(
    cluster: Cluster, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log", with_an_impossible_outcome(cluster), fingerprint="0" * 24)
    with pytest.raises(ReplayError, match=r"cannot fold event 2 .*: run that version"):
        asked(log, **T0)


# Questions without an answer ---------------------------------------------------------------------


def test_unknown_partition_or_topic_is_an_error(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"no partition t-9 at event \d+; topic t has 0"):
        why(cluster, tmp_path, topic="t", partition=9)
    with pytest.raises(ReplayError, match=r"no topic x at event \d+; topics: t"):
        why(cluster, tmp_path, topic="x", partition=0)


def test_unknown_broker_is_an_error(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(
        ReplayError, match=r"no broker 9 at event \d+; brokers: 1,2,3[.] .* event with --at"
    ):
        why(cluster, tmp_path, broker=9)


def test_id_of_the_daemon_is_no_unknown_broker(cluster: Cluster, tmp_path: Path) -> None:
    expected = "1000 is the broker id of the daemon that recorded this log: .* explain its role"
    with pytest.raises(ReplayError, match=expected):
        why(cluster, tmp_path, broker=1000)


def test_why_reports_a_registered_broker(cluster: Cluster, tmp_path: Path) -> None:
    """Decisions about partitions without this broker are not part of the answer."""
    cluster.start_broker(4)
    answer = why(cluster, tmp_path, broker=4)
    assert plain(answer.answer).startswith("Broker 4 has been registered since event N.")
    assert [one.kind for one in answer.chain] == ["broker_changed"]


def test_answer_for_an_earlier_event_ignores_later_events(cluster: Cluster, tmp_path: Path) -> None:
    before = len(cluster.history)
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    answer = why(cluster, tmp_path, at=before, **T0)
    assert answer.seq == before
    new = "t-0 has had leader 1 since event N: the partition was new"
    assert plain(answer.answer).startswith(new)
    assert all(one.seq <= before for one in answer.chain)
