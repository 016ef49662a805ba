"""docs/kafka-logs.md maps each log line of the article in KB 16 to its event in a log of refold."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from controller.core.canonical import EVENT_SCHEMAS, cause_of, kind_of
from controller.core.events import Event, WatchFired
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.role.standby_pair import StandbyPair
from tests.replay.kafka_text.rendering import PAGE, lines_of
from tests.replay.kafka_text.scenes import (
    broker_dies_and_returns,
    killed_daemon_returns,
    killed_daemon_returns_after_its_session,
    killed_daemon_returns_to_another_controller,
    session_ends,
)

ARTICLE = Path(__file__).with_name("failover_article.txt")
_ROW = re.compile(
    r"\| `(?P<old>[^`]+)` \| `(?P<event>\w+)`(?P<what>[^|]*)\|(?P<outcomes>[^|]*)\|(?P<new>.*)\|"
)


class Row(NamedTuple):
    """A line of the article, its triggering event, and the outcomes up to the current line."""

    old: str
    event: str
    what: str
    outcomes: list[str]
    new: str | None


@cache
def rows() -> list[Row]:
    found = map(_ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines())
    return [
        Row(
            one["old"],
            one["event"],
            one["what"].strip(),
            re.findall(r"`(\w+)`", one["outcomes"]),
            new[1] if (new := re.fullmatch(r" `([^`]+)` ", one["new"])) else None,
        )
        for one in found
        if one is not None
    ]


def letters(text: str) -> str:
    """A text without spaces, case, punctuation and short forms, which the translation changed."""
    return re.sub(r"[^a-z0-9]", "", text.lower().replace("i'll", "i will"))


def test_every_line_of_the_article_has_a_row() -> None:
    for line in ARTICLE.read_text(encoding="utf-8").splitlines():
        parts = [one.old.split("[...]") for one in rows()]
        assert any(all(letters(part) in letters(line) for part in of_row) for of_row in parts), line


def reasons(cluster: Cluster, seq: int) -> list[Event]:
    """The chain of events that leads to this event: each answers a command of the previous one."""
    events = {recorded.seq: recorded.event for recorded, _ in cluster.history}
    found = [events[seq]]
    while (cause := cause_of(found[0])) is not None:
        found.insert(0, events[cause])
    return found


@cache
def incidents() -> tuple[Cluster, ...]:
    return broker_dies_and_returns(), session_ends(), killed_daemon_returns()


@pytest.mark.parametrize("row", rows(), ids=lambda one: one.old[:40])
def test_line_of_0_8_has_the_words_of_the_article(row: Row) -> None:
    """The ids and the path differ."""
    lines = [line.body for each in incidents() for line in lines_of(each, of_0_8=True)]
    said = [compact(re.sub(r"[\d,]|at /\S+|\[{.*}\]", "", one)) for one in lines]
    parts = compact(re.sub(r"[\d,]|at /\S+", "", row.old))
    assert any(all(part in one for part in parts.split("[...]")) for one in said), (said, parts)


def test_lines_of_0_8_are_those_of_kafka_0_8() -> None:
    """The example of the article: broker 3 starts and broker 4 dies. The translation has changed
    spaces, case and the words "I will", and Kafka prints brokers in the order of their hashes."""
    cluster = Cluster(1, 2, 4).start()
    cluster.unregister(4)
    cluster.register(3)
    cluster.run()
    cluster.expire()
    own = cluster.controller()
    name = "kafka.controller.KafkaController"
    expected = [
        f"INFO [BrokerChangeListener on Controller {own}]: Newly added brokers: 3, deleted brokers:"
        " 4, all live brokers: 1,2,3 (kafka.controller.ReplicaStateMachine$BrokerChangeListener)",
        f"INFO [Controller {own}]: New broker startup callback for 3 ({name})",
        f"INFO [Controller {own}]: Broker failure callback for 4 ({name})",
        f"INFO [SessionExpirationListener on {own}], ZK expired; shut down all controller "
        f"components and try to re-elect ({name}$SessionExpirationListener)",
    ]
    lines = [line.text[26:] for line in lines_of(cluster, of_0_8=True)]
    assert [one for one in lines if "Newly added brokers: , deleted" not in one] == expected


def test_daemon_that_was_killed_finds_a_conflicted_ephemeral_node() -> None:
    [conflict] = lines_of(killed_daemon_returns(), of_0_8=True)
    assert re.fullmatch(
        r"INFO I wrote this conflicted ephemeral node \[\{.*\}\] at /controller a while back in a "
        r"different session, hence I will backoff for this node to be deleted by Zookeeper and "
        r"retry \(kafka\.utils\.ZkUtils\$\)",
        conflict.text[26:],
    )
    errors = [line.message for line in lines_of(killed_daemon_returns()) if line.level == "ERROR"]
    assert [one.partition(",")[0] for one in errors] == [
        "Error while creating ephemeral at /controller"
    ]


@pytest.mark.parametrize(
    "scene", [killed_daemon_returns_after_its_session, killed_daemon_returns_to_another_controller]
)
def test_daemon_that_waited_for_the_end_of_its_session_conflicts_with_none(
    scene: Callable[[], Cluster],
) -> None:
    """When its log begins, ZooKeeper has deleted the znode of the earlier session."""
    lines = lines_of(scene()) + lines_of(scene(), of_0_8=True)
    assert [one.text for one in lines if "ephemeral" in one.text] == []


def test_first_session_of_a_daemon_conflicts_with_none() -> None:
    lines = lines_of(session_ends()) + lines_of(session_ends(), of_0_8=True)
    assert [one.text for one in lines if "ephemeral" in one.text] == []


def test_standby_does_not_call_the_znode_of_another_daemon_its_own() -> None:
    """Both have the same broker id."""
    pair = StandbyPair()
    pair.take_over()
    lines = lines_of(pair.standby, of_0_8=True) + lines_of(pair.standby)
    assert [one.text for one in lines if "conflicted" in one.text or "ephemeral" in one.text] == []


def compact(text: str) -> str:
    """A text without spaces and case."""
    return re.sub(r"\s", "", text.lower())


@pytest.mark.parametrize("row", [one for one in rows() if one.new], ids=lambda one: one.old[:40])
def test_current_line_follows_its_event(row: Row) -> None:
    pattern = re.compile(rf"(?:\[.*\] )?{re.escape(row.new or '').replace('…', '.*?')}")
    chains = [
        reasons(cluster, line.seq)
        for cluster in incidents()
        for line in lines_of(cluster)
        if pattern.fullmatch(line.message)
    ]
    expected = [row.event, *row.outcomes]
    assert expected in [[kind_of(event) for event in events] for events in chains]
    if row.event == "watch_fired":
        [first, *_] = next(one for one in chains if kind_of(one[0]) == row.event)
        assert isinstance(first, WatchFired)
        assert row.what == f"{first.path} {first.change}"


def test_events_of_the_rows_exist() -> None:
    assert {one.event for one in rows()} <= set(EVENT_SCHEMAS)
