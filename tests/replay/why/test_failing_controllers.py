"""A controller that is wedged, stuck, or fails again and again is the headline of `why` and
`inspect`; so is a broker that does not answer."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.core.commands import Issued, ZooKeeperCommand
from controller.core.error_codes import NONE
from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log, seq_at
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.times import nanoseconds_of
from replay.why.headline import headline_of
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.elections.electing import put_election_quietly
from tests.controller.core.procedures.elections.test_unsent_batches import (
    fenced_while_replicas_go_offline,
)
from tests.controller.core.procedures.reassignment.reassigning import ask_for_isr
from tests.controller.core.test_deviations import NEW, with_a_new_partition
from tests.replay.recorded_log import write_log
from tests.replay.why.asked import asked, plain

FolderOf = Callable[[str], Path]
QUESTIONS: list[dict[str, Any]] = [
    {"topic": "t", "partition": 0},
    {"topic": "t", "partition": 0, "is_reassignment": True},
    {"topic": "t"},
    {"broker": 2},
]


def headline(log: Path, at: int | None = None) -> str:
    """The headline of `inspect`."""
    with open_log(log) as opened:
        cluster = cluster_at(opened, at or opened.reader.last_seq)
        return headline_of(opened, cluster)


def unhealthy(log: Path, at: int | None = None) -> list[tuple[str, list[str]]]:
    """The root causes, each with what it affects."""
    answer = asked(log, at, is_unhealthy=True)
    return [(plain(one.cause), one.affected) for one in answer.unhealthy]


# A wedged state machine --------------------------------------------------------------------------


@pytest.fixture
def wedged(tmp_path: Path) -> Path:
    """Broker 2 died, and the change was fenced; broker 3 dies after the role has returned."""
    cluster, session = fenced_while_replicas_go_offline("kafka")
    cluster.leave_role(session)
    cluster.stop_broker(3)
    cluster.start_broker(2)
    return write_log(tmp_path / "log", cluster)


def test_wedged_daemon_is_the_headline(wedged: Path) -> None:
    first = plain(headline(wedged))
    assert first == (
        "The controller of term 3 could not send requests to brokers at event N, 4 times up to "
        "event N: nothing is moved to ONLINE: requests of an earlier change were never sent."
        " The requests were left when term 1 of the same controller ended at event N: "
        "another controller was found."
    )
    for question in QUESTIONS:
        assert plain(asked(wedged, **question).answer).startswith(first)
    assert unhealthy(wedged)[0][0] == first


STOCK_WEDGE = """\
[2026-11-21 00:24:30,500] ERROR [{machine}StateMachine controllerId=4] Error while moving some \
{what} to {target} state (kafka.controller.Zk{machine}StateMachine)
java.lang.IllegalStateException: Controller to broker state change requests batch is not empty \
while creating a new one. Some LeaderAndIsr state changes Map(1 -> HashMap()) might be lost
\tat kafka.controller.AbstractControllerBrokerRequestBatch.newBatch(ControllerChannelManager.scala)
"""


@pytest.mark.long
def test_wedged_stock_controller_is_the_headline(folder_of: FolderOf, tmp_path: Path) -> None:
    source = copied(folder_of("controller-znode-delete-2"), tmp_path)
    line = STOCK_WEDGE.format(machine="Replica", what="replicas", target="OnlineReplica")
    insert(source / "logs/broker-4/controller.log", "[2026-11-21 00:24:30", line)
    log = imported(source, tmp_path)
    at = seq_of(log, "2026-11-21T00:24:31")
    first = plain(headline(log, at))
    assert first == (
        "The controller of term 13 could not send requests to brokers at event N: nothing is moved "
        "to OnlineReplica: requests of an earlier change were never sent (batch is not empty). The "
        "requests were left when term 11 of the same controller ended at event N: "
        "/controller was deleted by session 0x1000026c0f80000, not by the controller."
    )
    assert plain(asked(log, at, topic="t.01", partition=0).answer).startswith(first)
    assert unhealthy(log, at)[0][0] == first


# Failovers ---------------------------------------------------------------------------------------


def test_failovers_of_a_daemon_that_fail_in_a_row_are_the_headline(tmp_path: Path) -> None:
    cluster = with_a_new_partition("kafka")
    put_election_quietly(cluster, NEW)

    def stop_after_ten(issued: Issued) -> None:
        cluster.is_stopped = cluster.epoch() > 11

    cluster.before = stop_after_ten
    cluster.expire()
    log = write_log(tmp_path / "log", cluster)
    first, under_way = plain(headline(log)).split(" The failover of ")
    assert first.startswith("10 failovers in a row have failed, those of terms 2 to 11; the first")
    assert under_way.startswith("controller epoch 12 is under way")
    assert plain(asked(log, topic=NEW[0]).answer).startswith(first)
    assert unhealthy(log)[0][0] == first


@pytest.mark.long
def test_failovers_of_stock_controllers_that_fail_in_a_row_are_the_headline(
    log_of: FolderOf,
) -> None:
    log = log_of("chaos-9120556")
    first = plain(headline(log))
    assert first == (
        "26 failovers in a row have failed, those of terms 7 to 32; the first at event N: "
        "NoSuchElementException: head of empty ArrayBuffer; the last at event N: "
        "NoSuchElementException: head of empty list."
    )
    assert plain(asked(log, topic="big41", partition=4).answer).startswith(first)
    assert unhealthy(log) == [
        (first, ["big41-4", "big41-5", "big41-7"]),
        ("broker 77 is not registered", ["big41-5"]),
    ]


@pytest.mark.long
def test_failover_that_succeeds_ends_the_headline(log_of: FolderOf) -> None:
    log = log_of("zookeeper-931204")
    assert headline(log, 4000).startswith("3 failovers in a row have failed, those of terms 4 to 6")
    assert headline(log) == ""


# A queue of controller events that is stuck -------------------------------------------------------


class SilentCluster(Cluster):
    """A cluster whose ZooKeeper stops answering."""

    is_silent = False

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        return [] if self.is_silent else super().ask_zookeeper(issued, command)


def test_daemon_that_waits_for_an_outcome_is_the_headline(tmp_path: Path) -> None:
    cluster = SilentCluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.is_silent = True
    cluster.stop_broker(2)
    cluster.now_ms += 24_000
    cluster.put("/brokers/topics/u", b'{"version":1,"partitions":{"0":[1]}}')
    log = write_log(tmp_path / "log", cluster)
    first = re.sub(r"\d+\.\d", "N", plain(headline(log)))
    assert first == (
        "The controller is stuck: BrokerChange, begun at event N, has been waiting for the outcome "
        "of read_children N since event N, for 24 s; 1 controller event queued."
    )
    for question in QUESTIONS:
        assert re.sub(r"\d+\.\d", "N", plain(asked(log, **question).answer)).startswith(first)
    assert re.sub(r"\d+\.\d", "N", unhealthy(log)[0][0]) == first


def test_daemon_that_waits_for_a_moment_is_not_stuck(tmp_path: Path) -> None:
    cluster = SilentCluster(1, 2).start()
    cluster.is_silent = True
    cluster.stop_broker(2)
    cluster.now_ms += 2_000
    cluster.put("/brokers/topics/u", b'{"version":1,"partitions":{"0":[1]}}')
    assert headline(write_log(tmp_path / "log", cluster)) == ""


@pytest.mark.long
def test_stock_controller_that_ignores_a_broker_is_the_headline(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    """The lines about the broker that registered are removed, as if the thread were stuck."""
    source = copied(folder_of("controller-91008"), tmp_path)
    for log in source.glob("logs/broker-*/controller.log"):
        lines = log.read_text().splitlines(keepends=True)
        log.write_text("".join(one for one in lines if "Newly added brokers" not in one))
    log = imported(source, tmp_path)
    with open_log(log) as opened:
        last = opened.reader.last_seq
    found = [headline(log, seq) for seq in range(last // 4, last, last // 15)]
    assert any(
        re.match(
            r"The controller of term \d+ is stuck: it has not processed that broker \d+ "
            r"(registered|was lost) at event \d+ \(.*Z\), \d\d s ago\.$",
            one,
        )
        for one in found
    )


# Brokers that do not answer -----------------------------------------------------------------------


def test_broker_that_does_not_answer_the_daemon_is_named(tmp_path: Path) -> None:
    cluster = Cluster(1, 2).start()
    cluster.is_slow = lambda request: request.broker == 2
    cluster.create_topic("t", {0: [1, 2]})
    cluster.create_topic("only", {0: [1]})
    cluster.now_ms += 24_000
    assert ask_for_isr(cluster, 1) == NONE
    log = write_log(tmp_path / "log", cluster)
    silent = re.compile(r"Broker 2 has not answered LeaderAndIsr of event N for 24 s")
    for question in ({"broker": 2}, {"topic": "t"}, {"topic": "t", "partition": 0}):
        assert silent.match(plain(asked(log, **question).answer))
    for other in ({"broker": 1}, {"topic": "only"}):
        assert not silent.search(plain(asked(log, **other).answer))
    assert silent.match(plain(headline(log)))
    [(cause, affected)] = unhealthy(log)
    assert silent.match(cause)
    assert affected == ["t-0"]


@pytest.mark.long
def test_broker_that_does_not_answer_a_stock_controller_is_named(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    """The responses of broker 2 are removed from the controller's log."""
    source = copied(folder_of("preferred-election-9"), tmp_path)
    for log in source.glob("logs/broker-*/state-change.log"):
        lines = log.read_text().splitlines(keepends=True)
        log.write_text(
            "".join(one for one in lines if "Received response" not in one or "(id: 2 " not in one)
        )
    log = imported(source, tmp_path)
    with open_log(log) as opened:
        last = opened.reader.last_seq
    found = [headline(log, seq) for seq in range(last // 4, last, last // 15)]
    assert any(
        re.match(r"Broker 2 has not answered \w+ of event \d+ \(.*Z\) for \d+ s, nor ", one)
        for one in found
    )
    assert not any("Broker 1 has" in one for one in found)


# Files of stock clusters --------------------------------------------------------------------------


def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy of a recording that a test may change."""
    return Path(shutil.copytree(folder, tmp_path / folder.name))


def insert(log: Path, before: str, lines: str) -> None:
    """Adds lines to a log before the first line that begins so, or later."""
    found = log.read_text().splitlines(keepends=True)
    place = next((n for n, one in enumerate(found) if one >= before and one[0] == "["), len(found))
    log.write_text("".join([*found[:place], lines, *found[place:]]))


def imported(source: Path, tmp_path: Path) -> Path:
    """The imported log of a recording."""
    import_source(source, tmp_path / "imported", Selection())
    return tmp_path / "imported"


def seq_of(log: Path, time: str) -> int:
    """The last event up to a time."""
    with open_log(log) as opened:
        return seq_at(opened.reader, None, nanoseconds_of(time))
