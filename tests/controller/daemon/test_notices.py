"""The limit of messages with the same code."""

import logging
from collections import Counter

import pytest

from controller.core.commands import CommandId, Issued, Notice, Reason
from controller.daemon import notices
from controller.daemon.notices import NoticeLog
from tests.controller.core.cluster import Cluster


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level(logging.INFO)
    made = Clock()
    monkeypatch.setattr(notices, "time", made)
    return made


def log(target: NoticeLog, code: str, *subjects: str, level: str = "info") -> None:
    for one in subjects:
        notice = Notice(level, code, one, f"{one} changed")  # type: ignore[arg-type]
        target.log(notice, Issued(CommandId(7, 0), 3, Reason("a rule"), notice))


def test_messages_above_the_limit_of_a_code_are_counted_and_others_are_logged(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    target = NoticeLog(2)
    log(target, "reassignment_begun", "t-0", "t-1", "t-2")
    log(target, "reassignment_begun", "t-3", level="warning")
    log(target, "broker_failed", "broker 1")
    assert caplog.messages == ["t-0 changed", "t-1 changed", "broker 1 changed"]
    caplog.clear()
    clock.now_s += 59
    target.report_left_out()
    assert caplog.messages == []
    clock.now_s += 1
    target.report_left_out()
    [left_out] = caplog.records
    assert left_out.getMessage().startswith("2 more messages with this code were left out")
    # An alert on the code and on the highest level still finds it.
    assert left_out.levelname == "WARNING"
    assert left_out.fields == {"code": "reassignment_begun", "left_out": 2}  # type: ignore[attr-defined]


def test_next_minute_begins_with_the_count_of_the_last(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    target = NoticeLog(1)
    log(target, "topic_found", "a", "b")
    clock.now_s += 60
    log(target, "topic_found", "c")
    first, left_out, last = caplog.messages
    assert (first, last) == ("a changed", "c changed")
    assert left_out.startswith("1 more message")


def test_end_of_the_daemon_reports_what_was_left_out(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    target = NoticeLog(1)
    log(target, "topic_found", "a", "b")
    target.report_left_out(is_end=True)
    assert len(caplog.messages) == 2


def test_without_a_limit_everything_is_logged(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    log(NoticeLog(None), "topic_found", *map(str, range(500)))
    assert len(caplog.messages) == 500


def notices_of(partitions: int) -> Counter[str]:
    """The codes of the notices of a start, a crash, a failover and a return with this
    number of partitions."""
    cluster = Cluster(1, 2, 3, auto_leader_rebalance_enable=False).start()
    cluster.create_topic("orders", dict.fromkeys(range(partitions), (1, 2, 3)))
    cluster.stop_broker(1)
    cluster.expire()
    cluster.start_broker(1)
    codes = (one.command.code for one in cluster.commands() if isinstance(one.command, Notice))
    return Counter(codes)


def test_lines_of_a_failover_do_not_grow_with_the_number_of_partitions() -> None:
    found = notices_of(1000)
    assert found["elected"] == 2
    assert found == notices_of(3)
