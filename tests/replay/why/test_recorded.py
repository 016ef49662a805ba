"""Answers out of a log of the daemon: each kind of question, against what was done."""

import re
from pathlib import Path

import pytest
from msgspec import structs

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.events import ChannelFault, SessionDisconnected
from controller.core.fold import Fold
from replay.errors import ReplayError
from tests.controller.core.cluster import Cluster
from tests.controller.core.elections.electing import elect
from tests.controller.core.endpoint import controlled_shutdown, next_request
from tests.controller.core.reassignment.reassigning import (
    ask_for_isr,
    catch_up,
    elect_preferred,
)
from tests.controller.core.topics.deleting import mark
from tests.replay.recorded_log import write_log
from tests.replay.why.asked import asked, first, plain, why

T0 = {"topic": "t", "partition": 0}


# Partitions ---------------------------------------------------------------------------------------


def test_first_leader(tmp_path: Path) -> None:
    cluster = Cluster(2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    assert first(cluster, tmp_path, **T0) == (
        "t-0 has leader 2 since event N: the partition was new, and it is the first replica that "
        "was online; passed over: 1 is not online. Broker 1 is not in the ISR of t-0: it never was "
        "in this log; now it is not registered."
    )


def test_leader_after_the_last_one_died(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1, 3)
    cluster.stop_broker(1)
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has leader 3 since event N: the registration of broker 1 is gone (event N), and it "
        "was the leader; 3 is the first replica that was online and in sync; passed over: 1 is not "
        "online, 2 is not in sync. "
    )


def test_offline_partition(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    answer = why(cluster, tmp_path, **T0)
    assert plain(answer.answer) == (
        "t-0 is offline since event N: the registration of broker 1 is gone (event N), and it was "
        "the leader; no replica could lead at event N: 1 is not online, 2 is not in sync, 3 is not "
        "in sync. The ISR is 1: it comes back with broker 1, or by an unclean election, which may "
        "lose records."
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


def test_partition_that_comes_back_with_the_broker_in_sync(
    cluster: Cluster, tmp_path: Path
) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has leader 1 since event N: it had no leader, and broker 1 has registered (event N); "
        "1 is the first replica that was online and in sync. Broker 2 is not in the ISR of t-0 "
        "since event N: its leader, broker 1, asked for ISR 1, as leaders do with a follower that "
        "lags behind or is gone; now it is live, but has not caught up."
    )


def test_leader_that_died_while_there_was_no_controller(cluster: Cluster, tmp_path: Path) -> None:
    """That broker 2 registered long ago has led to nothing."""
    cluster.expire()
    cluster.unregister(1)
    cluster.connect()
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has leader 2 since event N: its leader, broker 1, was no longer online, so that it "
        "had none from event N on; the failover of term 3 of broker 1000, controller since event "
        "N, elected 2; 2 is the first replica that was online and in sync; passed over: 1 is not "
        "online. "
    )


def test_unclean_leader_that_was_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    elect(cluster, "unclean", ("t", 0))
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has leader 2 since event N: a client requested an election; no replica in sync was "
        "online, so by an unclean election, as requested, 2 leads as the first replica that "
        "was online; passed over: 1 is not online, 3 is not in sync. "
    )


def test_unclean_leader_that_the_settings_allow(tmp_path: Path) -> None:
    cluster = Cluster(1, 2, 3, unclean_leader_election_enable=True).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    assert (
        "so by an unclean election, which the topic's settings allow, 2 leads as the first replica "
        "that was online; passed over: 1 is not online, 3 is not in sync."
    ) in first(cluster, tmp_path, **T0)


def test_leader_after_an_orderly_stop(cluster: Cluster, tmp_path: Path) -> None:
    controlled_shutdown(cluster, 1)
    answer = first(cluster, tmp_path, **T0)
    assert answer.startswith("t-0 has leader 2 since event N: ")
    assert "broker 1 asked for a controlled shutdown" in answer
    assert "passed over: 1 is shutting down" in answer


def test_preferred_leader(cluster: Cluster, tmp_path: Path) -> None:
    cluster.stop_broker(1)
    cluster.start_broker(1)
    catch_up(cluster, 1)
    number = next_request(cluster)
    elect_preferred(cluster)
    assert first(cluster, tmp_path, **T0) == (
        "t-0 has leader 1 since event N: it is the preferred replica, as requested by "
        f"ElectLeaders, request {number}, preferred: t-0."
    )


def test_leader_that_a_stock_controller_elected(cluster: Cluster, tmp_path: Path) -> None:
    session = cluster.seize_role(2)
    cluster.run()
    state = cluster.leadership("t", 0)
    changed = structs.replace(state, leader=3, leader_epoch=7, isr=(3,))
    cluster.put_quietly(znodes.state_path("t", 0), znodes.write_state(changed))
    cluster.leave_role(session)
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 has leader 3 since event N: the controller found it in ZooKeeper, where another "
        "process had written it."
    )


def test_partition_without_any_live_replica(tmp_path: Path) -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [8, 9]})
    assert first(cluster, tmp_path, **T0) == (
        "t-0 has never had a leader: at event N no replica is online; its replicas are 8,9."
    )


# Replicas and brokers -----------------------------------------------------------------------------


def test_broker_that_the_controller_took_out_of_the_isr(cluster: Cluster, tmp_path: Path) -> None:
    cluster.stop_broker(3)
    assert first(cluster, tmp_path, **T0, broker=3) == (
        "Broker 3 is not in the ISR of t-0 since event N: the registration of broker 3 is gone "
        "(event N), and the controller removed it (remove 3 from ISR); now it is not registered."
    )


def test_broker_that_its_leader_took_out_of_the_isr(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1, 3)
    assert first(cluster, tmp_path, **T0, broker=2) == (
        "Broker 2 is not in the ISR of t-0 since event N: its leader, broker 1, asked for ISR 1,3, "
        "as leaders do with a follower that lags behind or is gone; now it is live, but has not "
        "caught up."
    )


def test_broker_that_came_back_into_the_isr(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1, 3)
    catch_up(cluster, 2)
    assert first(cluster, tmp_path, **T0, broker=2) == (
        "Broker 2 is in the ISR of t-0 since event N: AlterPartition: t-0 still leader 1, ISR "
        "1,3 -> 1,3,2, leader epoch 0."
    )


def test_broker_that_is_no_replica(cluster: Cluster, tmp_path: Path) -> None:
    assert first(cluster, tmp_path, **T0, broker=9) == (
        "Broker 9 has no replica of t-0: its replicas are 1,2,3."
    )


def test_broker_that_died(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    assert first(cluster, tmp_path, broker=1) == (
        "Broker 1 is not registered since event N: the registration of broker 1 is gone. It has 1 "
        "replicas, leads 0, and is in all their ISRs; t-0 is offline without it."
    )


def test_broker_that_stopped_in_order(cluster: Cluster, tmp_path: Path) -> None:
    controlled_shutdown(cluster, 1)
    cluster.stop_broker(1)
    assert first(cluster, tmp_path, broker=1) == (
        "Broker 1 is not registered since event N: the registration of broker 1 is gone, after it "
        "asked for a controlled shutdown (event N). It has 1 replicas, leads 0, and is out of the "
        "ISR of t-0."
    )


def test_broker_that_died_after_it_had_stopped_in_order(cluster: Cluster, tmp_path: Path) -> None:
    controlled_shutdown(cluster, 1)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    cluster.stop_broker(1)
    assert first(cluster, tmp_path, broker=1).startswith(
        "Broker 1 is not registered since event N: the registration of broker 1 is gone. It has"
    )


def test_controller_event_that_waited(cluster: Cluster, tmp_path: Path) -> None:
    """It is because of what queued it, not of what the controller was at before."""
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


def test_deletion_that_is_stuck(cluster: Cluster, tmp_path: Path) -> None:
    cluster.stop_broker(2)
    mark(cluster, "t")
    assert first(cluster, tmp_path, topic="t") == (
        "The deletion of t is blocked since event N: replicas of it are on broker 2, which is not "
        "online: the registration of broker 2 is gone (event N)."
    )
    assert first(cluster, tmp_path, **T0).startswith(
        "t-0 is being deleted with its topic since event N"
    )


def test_deleted_topic(cluster: Cluster, tmp_path: Path) -> None:
    mark(cluster, "t")
    answer = first(cluster, tmp_path, **T0)
    assert answer.startswith("There is no topic t any more at event N: t is deleted")


def test_topic_that_is_not_well(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("u", {0: [1, 2], 1: [3], 2: [2, 1]})
    cluster.stop_broker(3)
    assert first(cluster, tmp_path, topic="u") == (
        "u has 3 partitions: u-1 is offline. See --partition for the causes."
    )
    assert first(cluster, tmp_path, topic="t") == (
        "t has 1 partitions: not all in sync: t-0 (lacks 3). See --partition for the causes."
    )


# Terms --------------------------------------------------------------------------------------------


def test_term_that_ended_with_the_session(cluster: Cluster, tmp_path: Path) -> None:
    cluster.expire()
    assert "the ZooKeeper session is over" in first(cluster, tmp_path, term=1)
    assert first(cluster, tmp_path, term=1).startswith("Term 1 of broker 1000 ended at event N: ")
    assert first(cluster, tmp_path).startswith("Broker 1000 is controller of term 2 since event N")


def test_session_that_ended_in_silence(cluster: Cluster, tmp_path: Path) -> None:
    """The daemon stood still, or was cut off."""
    cluster.now_ms += 7_000
    cluster.expire()
    assert re.match(
        r"Term 1 of broker 1000 ended at event N: the ZooKeeper session is over; nothing had been "
        r"observed for 7\.\d s before\. It had begun at event N\.",
        first(cluster, tmp_path, term=1),
    )


def test_term_that_ended_after_a_lost_connection_names_the_loss(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.happen(SessionDisconnected(cluster.session, "connection reset"), "session")
    cluster.now_ms += 500
    cluster.expire()
    assert re.search(
        r"; at event N, 0\.5 s before, the connection to ZooKeeper is lost: connection reset\.",
        first(cluster, tmp_path, term=1),
    )


def test_role_that_somebody_held_in_between(cluster: Cluster, tmp_path: Path) -> None:
    session = cluster.seize_role(2)
    cluster.run()
    cluster.leave_role(session)
    assert first(cluster, tmp_path).endswith(", and another broker had held the role since.")


def test_term_that_somebody_else_took(cluster: Cluster, tmp_path: Path) -> None:
    cluster.seize_role(2)
    cluster.run()
    answer = first(cluster, tmp_path, term=1)
    assert answer.startswith("Term 1 of broker 1000 ended at event N: ")
    assert "/controller" in answer
    assert first(cluster, tmp_path).startswith("Term 1 of broker 1000 ended at event N: ")


def test_term_that_the_operator_ended(cluster: Cluster, tmp_path: Path) -> None:
    cluster.shut_down()
    assert first(cluster, tmp_path, term=1).startswith(
        "Term 1 of broker 1000 ended at event N: gave the role up (event N: shutdown requested: "
        "SIGTERM)."
    )


def test_signal_is_because_of_nothing_that_runs(cluster: Cluster, tmp_path: Path) -> None:
    cluster.once(lambda issued: isinstance(issued.command, WriteZnodes), cluster.shut_down_quietly)
    cluster.create_topic("u", {0: [2, 3]})
    told = next(one for one in why(cluster, tmp_path).chain if "SIGTERM" in one.text)
    assert told.because is None


def test_channel_fault_is_because_of_nothing_that_runs(cluster: Cluster, tmp_path: Path) -> None:
    fault = ChannelFault(2, cluster.broker_epoch(2), "unreachable", "refused")
    cluster.once(
        lambda issued: isinstance(issued.command, WriteZnodes),
        lambda: cluster.happen_next(fault, "broker 2"),
    )
    cluster.create_topic("u", {0: [2, 3]})
    told = next(one for one in why(cluster, tmp_path, broker=2).chain if "refused" in one.text)
    assert told.because is None


def test_what_was_known_last_is_told_after_the_role_is_lost(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.shut_down()
    answer = why(cluster, tmp_path, **T0)
    assert answer.answer.startswith("t-0 has leader 1 since event ")
    assert "the answer is based on what it knew then" in answer.notes[0]


def test_daemon_that_was_killed(cluster: Cluster, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", cluster, close=False)
    assert asked(log, **T0).notes == [
        "The log was not closed: its daemon was killed, or this copy was made before the daemon "
        "ended."
    ]
    assert asked(log, len(cluster.history) - 1, **T0).notes == []


# Logs of another core -----------------------------------------------------------------------------


def test_another_core_that_decided_the_same(cluster: Cluster, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", cluster, fingerprint="0" * 24)
    answer = asked(log, **T0)
    assert answer.answer.startswith("t-0 has leader 1 since event ")
    [note] = answer.notes
    assert note.startswith(f"Recorded by core {'0' * 24} (refold ")
    assert note.endswith("; this core decides the same up to here.")


def test_another_core_that_decided_otherwise(cluster: Cluster, tmp_path: Path) -> None:
    place = next(n for n, (_, issued) in enumerate(cluster.history) if len(issued) > 2)
    recorded, issued = cluster.history[place]
    cluster.history[place] = (recorded, issued[:-1])
    [note] = asked(write_log(tmp_path / "log", cluster, fingerprint="0" * 24), **T0).notes
    assert f"from event {recorded.seq} on, this core decides differently" in note


def test_another_core_whose_log_cannot_be_folded(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "log", cluster, fingerprint="0" * 24)
    monkeypatch.setattr(Fold, "apply", lambda fold, event: 1 // 0)
    with pytest.raises(ReplayError, match=r"this core cannot fold event 1 .*: use that version"):
        asked(log, **T0)


# What cannot be asked -----------------------------------------------------------------------------


def test_partition_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"no partition t-9 at event \d+; topic t has 0"):
        why(cluster, tmp_path, topic="t", partition=9)
    with pytest.raises(ReplayError, match=r"no topic x at event \d+; there are t"):
        why(cluster, tmp_path, topic="x", partition=0)


def test_broker_that_nobody_knows(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"no broker 9 by event \d+; registered are 1,2,3"):
        why(cluster, tmp_path, broker=9)


def test_broker_that_is_well(cluster: Cluster, tmp_path: Path) -> None:
    """What was decided of partitions that it has no part in is not told."""
    cluster.start_broker(4)
    answer = why(cluster, tmp_path, broker=4)
    assert plain(answer.answer).startswith("Broker 4 is registered since event N.")
    assert [one.kind for one in answer.chain] == ["broker_changed"]


def test_question_about_a_moment_before(cluster: Cluster, tmp_path: Path) -> None:
    before = len(cluster.history)
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    answer = why(cluster, tmp_path, at=before, **T0)
    assert answer.seq == before
    assert plain(answer.answer).startswith("t-0 has leader 1 since event N: the partition was new")
    assert all(one.seq <= before for one in answer.chain)
