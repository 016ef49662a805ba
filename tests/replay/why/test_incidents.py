"""Answers from the logs in tests/incidents, of real servers: what their scripts did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log
from replay.why.explanations.explanation import Explanation, Link
from tests.replay.why.asked import asked, plain

IncidentOf = Callable[[str], Path]


def last(answer: Explanation, text: str) -> Link:
    """The last link of the chain with this text."""
    return next(one for one in answer.chain if text in one.text)


def when(log: Path, text: str, **about: Any) -> str:
    """The answer at the event of a link with this text."""
    seq = last(asked(log, **about), text).seq
    return plain(asked(log, seq, **about).answer)


@pytest.mark.parametrize("name", ["broker-crash", "broker-crash-2.6"])
def test_why_explains_the_leader_after_a_killed_broker(incident: IncidentOf, name: str) -> None:
    log = incident(name)
    assert plain(asked(log, topic="orders", partition=1).answer).startswith(
        "orders-1 has had leader 3 since event N: the registration of broker 2 is gone (event N), "
        "and broker 2 was the leader; 3 is the first replica that was online and in sync; passed "
        "over: 2 is not online."
    )
    assert when(log, "is gone", broker=2).startswith(
        "Broker 2 has not been registered since event N: the registration of broker 2 is gone. It "
        "has"
    )


def test_partition_with_a_later_controller_epoch_is_not_said_to_wait_for_a_broker(
    incident: IncidentOf,
) -> None:
    """KAFKA-20488: brokers 1 and 2 are in sync, and the controller elects neither."""
    log = incident("kraft-epoch-above")
    answer = plain(asked(log, 53, topic="orders", partition=2).answer)
    assert "1 is live and in the ISR and 2 is live and in the ISR." in answer
    assert "has not caught up" not in answer
    assert "returns" not in answer
    assert (
        " The controller leaves it unchanged: controller epoch 15 in the state is above 11"
        in answer
    )
    assert "`set /controller_epoch 15`, then `delete /controller`" in answer
    online = plain(asked(log, 53, topic="orders", partition=0).answer)
    assert " The controller leaves it unchanged: controller epoch 15 in the state" in online
    [epoch, broker] = asked(log, 53, is_unhealthy=True).unhealthy
    assert epoch.cause.startswith("the controller leaves partitions unchanged: controller epoch 15")
    assert len(epoch.affected) == 6
    assert broker.affected == ["orders-2"]


def test_cluster_that_a_failover_has_not_read_yet_is_not_said_to_be_gone_or_well(
    incident: IncidentOf,
) -> None:
    log = incident("kraft-epoch-above")
    unread = "The failover of controller epoch 16 is under way"
    for about in ({"topic": "orders", "partition": 2}, {"topic": "orders"}):
        answer = asked(log, 60, **about).answer
        assert answer.startswith("The controller does not know "), answer
        assert unread in answer
    assert asked(log, 60, is_unhealthy=True).answer.startswith(unread)
    moved = asked(log, 60, topic="orders", partition=2, is_reassignment=True).answer
    assert moved.startswith(f"It is not known whether orders-2 is being reassigned. {unread}")
    later = asked(log, 80, topic="orders", partition=2).answer
    assert later.endswith("The controller has not elected broker 1 or 2 yet.")


def test_why_explains_a_stopped_broker(incident: IncidentOf) -> None:
    log = incident("controlled-shutdown")
    assert when(log, "is gone", broker=1).startswith(
        "Broker 1 has not been registered since event N: the registration of broker 1 is gone, "
        "after it asked for a controlled shutdown (event N)."
    )
    assert "passed over: 1 is shutting down" in when(
        log, "controlled shutdown leader election", topic="orders", partition=0
    )
    assert plain(asked(log, topic="orders", partition=0).answer).startswith(
        "orders-0 has had leader 1 since event N: it is the preferred replica, as requested by "
        "ElectLeaders"
    )


def test_why_explains_an_offline_partition_and_an_unclean_leader(incident: IncidentOf) -> None:
    log = incident("unclean-election")
    assert when(log, "found no leader", topic="orders", partition=3) == (
        "orders-3 has been offline since event N: the registration of broker 1 is gone (event N), "
        "and broker 1 was the leader; no replica could lead at event N: 1 is not online, 3 is not "
        "in sync. Only broker 1 is in the ISR. The partition is online again when broker 1 "
        "returns, or after an unclean election, which may lose records."
    )
    assert when(log, "unclean", topic="orders", partition=3).startswith(
        "orders-3 has had leader 3 since event N: a client requested an election; no replica in "
        "sync was online, so by an unclean election, as requested, 3 leads as the first replica "
        "that was online; passed over: 1 is not online."
    )
    assert when(log, "unclean", topic="orders", partition=3, broker=1).startswith(
        "Broker 1 has not been in the ISR of orders-3 since event N: the registration of broker 1 "
        "is gone (event N), and the controller removed it (unclean partition leader election)"
    )


def test_why_explains_a_blocked_and_cancelled_reassignment(
    incident: IncidentOf,
) -> None:
    log = incident("reassignment")
    moved = {"topic": "moved", "partition": 1, "is_reassignment": True}
    assert when(log, "goes from replicas 1,2 to replicas 1,3,2", **moved) == (
        "The reassignment of moved-1 from 1,2 to 1,3, begun at event N, has not ended yet, 0 s "
        "after "
        "it began: broker 3 blocks it, not in sync, not registered: the registration of broker 3 "
        "is gone (event N). "
        "In sync of the target: 1."
    )
    assert plain(asked(log, **moved).answer) == (
        "moved-1 is not being reassigned: its move from 1,2 to 1,3 was rolled back at event N: "
        "a client asked to cancel it (AlterPartitionReassignments, event N)."
    )
    assert plain(asked(log, topic="moved", partition=0, is_reassignment=True).answer) == (
        "moved-0 is not being reassigned: at event N its replicas 1,2 got the order 2,1, for which "
        "none had to be copied."
    )


@pytest.mark.parametrize("seq", [116, 117, 118, 119])
def test_why_explains_a_rollback_in_progress(incident: IncidentOf, seq: int) -> None:
    """The controller dropped broker 3 at event 116; in ZooKeeper it was a replica until 120."""
    log = incident("reassignment")
    found = asked(log, seq, topic="moved", partition=1, is_reassignment=True)
    assert plain(found.answer) == (
        "The reassignment of moved-1 from 1,2 to 1,3, begun at event N, is being rolled back to "
        "1,2, as decided at event N: a client asked to cancel it (AlterPartitionReassignments, "
        "event N)."
    )
    given_up = found.chain[0]
    assert (given_up.seq, given_up.text) == (
        116,
        "moved-1: its move to 1,3 is given up for replicas 1,2",
    )
    assert given_up.because is not None
    assert given_up.because.seq == 110
    assert plain(asked(log, seq, topic="moved", partition=1).answer).endswith(
        " Its move to 1,3 is being rolled back, because a client asked to cancel it "
        "(AlterPartitionReassignments, event N); see --reassignment moved-1."
    )
    with open_log(log) as opened:
        [move] = cluster_at(opened, seq).reassignments
    assert (move.origin, move.target, move.waits_for) == ((1, 2), (1, 3), {})
    assert (move.status, move.becoming) == ("rolled back", (1, 2))
    stored = asked(log, 120, topic="moved", partition=1, is_reassignment=True)
    assert stored.answer.startswith("The move of moved-1 from 1,2 to 1,3 is being rolled back")
    done = asked(log, 123, topic="moved", partition=1, is_reassignment=True)
    assert "its move from 1,2 to 1,3 was rolled back" in done.answer
    # The event of the request, not of the first step.
    assert "(AlterPartitionReassignments, event 110)" in done.answer
    # The daemon cancels as Kafka does: not by the seven steps, which have another order.
    assert "of 7" not in str(done.moves)


def test_end_of_a_rollback_comes_before_an_entry_that_was_cancelled_earlier(
    incident: IncidentOf,
) -> None:
    """The entry is removed between the write of the originals and the last step of the rollback."""
    answer = asked(
        incident("entries-dropped"), topic="moved", partition=0, is_reassignment=True
    ).answer
    assert plain(answer).startswith(
        "moved-0 is not being reassigned: its move from 1,2 to 3,9 was rolled back at event N: "
        "/admin/reassign_cancel was created"
    )


def test_why_explains_a_deletion_that_waits_for_a_broker(incident: IncidentOf) -> None:
    log = incident("topic-deletion")
    assert when(log, "waits", topic="orders") == (
        "The deletion of orders has been blocked since event N: replicas of it are on broker 2, "
        "which is not online: the registration of broker 2 is gone (event N)."
    )
    sent = last(asked(log, topic="orders"), "broker 2 is sent the deletion").seq
    assert asked(log, sent, topic="orders").answer == (
        "The deletion of orders is under way: it waits for broker 2, which was sent the deletion "
        "at event 104 (2026-11-21T23:27:08.767536Z)."
    )
    with open_log(log) as opened:
        [deletion] = cluster_at(opened, sent).deletions
        assert (deletion.offline_brokers, deletion.waits_for) == ((), (2,))
        [deletion] = cluster_at(opened, 96).deletions
        assert (deletion.offline_brokers, deletion.waits_for) == ((2,), (3,))
    # Broker 2 answered.
    assert plain(asked(log, 126, topic="orders").answer) == (
        "The deletion of orders is about to end: brokers have deleted all its replicas."
    )
    assert plain(asked(log, topic="orders").answer).startswith(
        "There is no topic orders any more at event N: topic orders is deleted"
    )


def test_why_explains_an_expired_session_of_a_paused_daemon(incident: IncidentOf) -> None:
    log = incident("session-expiry")
    assert plain(asked(log, term=2).answer).startswith(
        "Term 2 of broker 1000 ended at event N: the ZooKeeper session is over; nothing had been "
        "observed for "
    )
    begun = last(asked(log), "failover completed").seq
    assert plain(asked(log, begun).answer).endswith(
        ", and another controller had held the role since. Broker 1000 replaced broker 2 (term 3) "
        "with command 54.0, which deleted /controller of broker 2, created it again and set "
        "/controller_epoch to 4."
    )


def test_why_explains_the_hand_back_of_the_role(incident: IncidentOf) -> None:
    for name in ("topics", "failover"):
        assert ": gave up the role (event N: shutdown requested: SIGTERM)" in plain(
            asked(incident(name)).answer
        )
