"""Answers from logs of stock clusters: what the recordings' scripts did, and the rule by which the
fold decides the same."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.logs.open_log import open_log
from replay.why.explain import explain
from replay.why.subject import Subject
from tests.replay.why.asked import asked, plain

LogOf = Callable[[str], Path]


def test_why_explains_an_unclean_leader(log_of: LogOf) -> None:
    """The script enabled unclean leaders for a topic whose last replica in sync was dead."""
    answer = asked(log_of("unclean-3"), topic="later.02", partition=0)
    assert plain(answer.answer) == (
        "later.02-0 has had leader 2 since event N: unclean leader election was enabled; no "
        "replica in sync was online, so by an unclean election, which the topic's settings allow, "
        "2 leads as the first replica that was online; passed over: 1 is not online."
    )
    elected = next(one for one in answer.chain if one.rule.startswith("offline partition"))
    assert (elected.seq, elected.written_by, elected.epoch) == (748, "broker 3", 1)
    assert [(one.broker, one.why) for one in elected.passed_over] == [(1, "not online")]
    assert elected.because is not None
    assert elected.because.procedure == "TopicUncleanLeaderElectionEnable"
    assert elected.because.text == (
        "broker 3, controller.log: [Controller id=3] Unclean leader election has been enabled for "
        "topic later.02"
    )
    assert answer.notes == []


def test_why_explains_an_offline_partition_of_an_imported_log(log_of: LogOf) -> None:
    answer = asked(log_of("unclean-3"), 740, topic="later.02", partition=0)
    assert plain(answer.answer).startswith(
        "later.02-0 has been offline since event N: the registration of broker 1 is gone, its "
        "ZooKeeper session expired (event N), and broker 1 was the leader; no replica could lead "
        "at event N: 2 is not in sync, 1 is not online. Only broker 1 is in the ISR. The "
        "partition is online again when broker 1 returns"
    )


def test_why_explains_the_failover_after_the_death_of_the_controller(log_of: LogOf) -> None:
    """The script killed the controller, which was leader; the elected broker registered earlier."""
    answer = asked(log_of("controller-91008"), 5000, topic="t_43", partition=2)
    assert re.sub(r" \(\d{4}-[^)]*Z\)", "", answer.answer) == (
        "t_43-2 has had leader 2 since event 4585: the registration of broker 4 is gone, its "
        "ZooKeeper session expired (event 4312), and broker 4 was the leader, so that it had none "
        "from event 4495 on; the failover of term 7 of broker 3, controller since event 4313, "
        "elected 2; 2 is the first replica that was online and in sync; passed over: 4 is not "
        "online."
    )


def test_why_has_the_rule_of_the_selected_event(log_of: LogOf) -> None:
    """The log has the decision about a transaction after the transaction."""
    answer = asked(log_of("broker-crash-2"), 471, topic="wide-03", partition=0)
    assert answer.chain[0].seq == 471
    assert answer.chain[0].rule == "offline partition leader election"
    assert [one.broker for one in answer.chain[0].passed_over] == [1]


def test_why_explains_a_reassignment_blocked_by_a_killed_broker(log_of: LogOf) -> None:
    log = log_of("reassign-cancel-6")
    answer = asked(log, 1950, topic="dead.07", partition=0, is_reassignment=True)
    assert plain(answer.answer).startswith(
        "The reassignment of dead.07-0 from 3,5 to 1,2, begun at event N, has not ended yet, 4 s "
        "after it began: broker 2 blocks it, not in sync, not registered: the registration of "
        "broker 2 is gone, its "
        "ZooKeeper session expired (event N)."
    )
    written = next(one for one in answer.chain if one.kind == "assignment_written")
    assert written.rule == "reassignment: store the assignment"
    later = asked(log, 2600, topic="dead.07", partition=0, is_reassignment=True)
    assert plain(later.answer) == (
        "dead.07-0 is not being reassigned: its move from 3,5 to 1,2 ended at event N, when all of "
        "these were in sync."
    )


@pytest.mark.sampled
@pytest.mark.parametrize(("topic", "number"), [("t.01", 99), ("no-such-topic", 0)])
def test_why_explains_a_request_for_a_missing_partition(
    log_of: LogOf, topic: str, number: int
) -> None:
    """The script requested these, together with partitions that exist."""
    log = log_of("reassign-znode-7")
    answer = asked(log, topic=topic, partition=number, is_reassignment=True)
    assert plain(answer.answer) == (
        f"{topic}-{number} is not being reassigned: at event N a request for it was rejected: the "
        "entry is removed from /admin/reassign_partitions: The partition does not exist."
    )
    assert [one.kind for one in answer.chain] == ["notice", "reassignment_requested"]
    before = asked(log, 900, topic=topic, partition=number, is_reassignment=True)
    assert plain(before.answer) == (
        f"{topic}-{number} is not being reassigned: {topic}-{number}: a client asked for replicas "
        "1,2 (/admin/reassign_partitions) at event N, when there was no such partition."
    )
    with pytest.raises(ReplayError, match=r"no partition t\.01-98"):
        asked(log, topic="t.01", partition=98, is_reassignment=True)


def test_why_explains_a_preferred_leader(log_of: LogOf) -> None:
    answer = asked(log_of("broker-crash-2"), topic="two-04", partition=3)
    assert plain(answer.answer) == (
        "two-04-3 has had leader 3 since event N: it is the preferred replica, and "
        "auto.leader.rebalance.enable moves leadership to preferred replicas."
    )


def test_why_reports_a_deleted_topic(log_of: LogOf) -> None:
    answer = asked(log_of("topics-1"), 2100, topic="orders-01")
    assert plain(answer.answer).startswith("There is no topic orders-01 any more at event N")
    texts = [one.text for one in answer.chain]
    assert any(one.startswith("the deletion of orders-01 is requested") for one in texts)


def test_why_explains_the_end_of_a_term(log_of: LogOf) -> None:
    log = log_of("zk-session-expiry-1")
    assert plain(asked(log, term=3).answer).startswith(
        "Term 3 of broker 1 ended at event N: its ZooKeeper session expired. It had begun at"
    )
    assert plain(asked(log).answer) == (
        "Broker 4 has been controller of term 4 since event N; term 3 of broker 1 had ended at "
        "event N: its ZooKeeper session expired. Broker 4 replaced broker 1 (term 3) with the "
        "write that created /controller and set /controller_epoch to 4."
    )
    with pytest.raises(ReplayError, match=r"no term 9 by event 2917; this log has 1,2,3,4"):
        asked(log, term=9)


def test_why_names_the_session_that_deleted_the_controller_znode(log_of: LogOf) -> None:
    assert "/controller was deleted by session 0x" in asked(log_of("unclean-3"), term=1).answer


def test_same_question_has_the_same_answer(log_of: LogOf) -> None:
    """The first answer must not leave the log in another position."""
    with open_log(log_of("unclean-3")) as log:
        subject = Subject(topic="later.02", partition=0)
        assert explain(log, subject, 1000) == explain(log, subject, 1000)
