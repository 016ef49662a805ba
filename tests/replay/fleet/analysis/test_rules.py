"""The rules of the analysis, each on a table with a few rows."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from replay.fleet.analysis.brokers import flapping_brokers
from replay.fleet.analysis.failovers import failover_percentiles
from replay.fleet.analysis.outages import outages
from replay.fleet.analysis.partitions import leader_changes, leader_churn
from replay.fleet.analysis.races import races
from replay.fleet.analysis.reassignments import reassignments
from replay.fleet.analysis.znodes import znodes
from replay.fleet.analysis.zombies import zombies
from tests.replay.fleet.analysis.small_tables import (
    FAILOVERS,
    LOGS,
    ZNODES,
    at,
    not_compiled,
    records,
    rows,
)

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(600),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

END = 1000
STATES = """cluster string, log string, seq bigint, time timestamp, term bigint, topic string,
    partition bigint, leader bigint, leader_epoch bigint, isr array<bigint>,
    replicas array<bigint>, adding array<bigint>, removing array<bigint>, rule string, code string,
    decided_seq bigint, is_deleted boolean, is_found boolean, until_seq bigint,
    until_time timestamp, is_last boolean"""
CHANGES = """cluster string, log string, seq bigint, time timestamp, term bigint, broker bigint,
    change string, cause string, asked_seq bigint, is_found boolean, until_seq bigint,
    until_time timestamp, is_last boolean"""
ASSIGNMENTS = "cluster string, log string, topic string, partition bigint, topic_id string"
STEPS = "cluster string, log string, term bigint, step string, seconds double"


@pytest.fixture(scope="module")
def fast_spark(spark: SparkSession) -> Iterator[SparkSession]:
    with not_compiled(spark):
        yield spark


def logs(spark: SparkSession) -> DataFrame:
    return rows(spark, LOGS, {"kind": "recorded", "version": "1", "seconds": 3600.0})


def states(spark: SparkSession, *given: dict[str, Any]) -> DataFrame:
    """The states of one partition over time."""
    filled = []
    for place, one in enumerate(given):
        until = given[place + 1]["seq"] if place + 1 < len(given) else END
        common = {"topic": "t", "partition": 0, "replicas": [1, 2, 3], "adding": [], "removing": []}
        common |= {"is_deleted": False, "is_found": False, "is_last": until == END}
        filled.append({**common, "until_seq": until, "until_time": at(until), **one})
    return rows(spark, STATES, *filled)


def changes(spark: SparkSession, *given: dict[str, Any]) -> DataFrame:
    filled = [
        {"until_seq": END, "until_time": at(END), "is_last": True, "is_found": False, **one}
        for one in given
    ]
    return rows(spark, CHANGES, *filled)


def test_outage_lasts_from_the_leaders_loss_to_the_new_leader(fast_spark: SparkSession) -> None:
    actual = states(
        fast_spark,
        {"seq": 1, "leader": 1, "isr": [1, 2, 3]},
        {"seq": 30, "leader": -1, "isr": [1]},
        {"seq": 50, "leader": 2, "isr": [2, 3]},
    )
    lost = changes(
        fast_spark,
        {"seq": 10, "broker": 1, "change": "gone", "cause": "failure"},
        {"seq": 5, "broker": 2, "change": "registered"},
    )
    found = {row.what: row for row in outages(actual, lost, logs(fast_spark)).collect()}
    gone = found["unavailable"]
    assert (gone.seq, gone.ended_seq, gone.seconds) == (10, 50, 40)
    assert (gone.cause, gone.broker, gone.is_open) == ("broker_failure", 1, False)
    short = found["under_replicated"]
    assert (short.seq, short.ended_seq, short.seconds, short.is_open) == (30, None, 970, True)
    assert (short.cause, short.broker) == ("broker_failure", 1)


def test_replicas_being_added_do_not_count_as_missing(fast_spark: SparkSession) -> None:
    actual = states(
        fast_spark, {"seq": 1, "leader": 1, "isr": [1, 2], "replicas": [1, 2], "adding": [3]}
    )
    assert outages(actual, changes(fast_spark), logs(fast_spark)).count() == 0


def test_lagging_follower_is_not_a_broker_failure(fast_spark: SparkSession) -> None:
    actual = states(
        fast_spark,
        {"seq": 1, "leader": 1, "isr": [1, 2]},
        {"seq": 9, "leader": 1, "isr": [1, 2, 3]},
        {"seq": 20, "leader": 1, "isr": [1, 2], "rule": "AlterPartition"},
    )
    came_back = {"is_last": False, "until_seq": 8, "until_time": at(8)}
    lost = changes(
        fast_spark, {"seq": 1, "broker": 3, "change": "gone", "cause": "failure", **came_back}
    )
    causes = {row.seq: row.cause for row in outages(actual, lost, logs(fast_spark)).collect()}
    assert causes == {1: "broker_failure", 20: "follower_lag"}


def test_outcome_of_a_reassignment_follows_from_its_replicas(fast_spark: SparkSession) -> None:
    first = {"leader": 1, "replicas": [1, 2], "adding": [3], "removing": [2]}
    actual = states(
        fast_spark,
        {**first, "seq": 10, "isr": [1, 2]},
        {**first, "seq": 20, "isr": [1, 2, 3]},
        {"seq": 30, "leader": 1, "isr": [1, 3], "replicas": [1, 3]},
        {**first, "seq": 40, "isr": [1, 2], "adding": [4], "removing": [3], "replicas": [1, 3]},
        {"seq": 50, "leader": 1, "isr": [1, 3], "replicas": [1, 3]},
        {**first, "seq": 400, "isr": [1, 3], "replicas": [1, 3], "adding": [2], "removing": []},
    )

    def found(stuck_s: float) -> list[tuple[Any, ...]]:
        ended = reassignments(actual, logs(fast_spark), stuck_s).orderBy("seq").collect()
        return [(row.seq, row.ended_seq, row.outcome, row.catching_up_s) for row in ended]

    first_two = [(10, 30, "completed", 10.0), (40, 50, "cancelled", None)]
    assert found(600) == [*first_two, (400, None, "stuck", None)]
    assert found(601)[2][2] == "ongoing"


def test_broker_with_enough_departures_within_the_window_flaps(fast_spark: SparkSession) -> None:
    gone = [{"broker": 1, "change": "gone"} for _ in range(3)]
    actual = changes(
        fast_spark, *({**one, "seq": seq} for one, seq in zip(gone, (10, 200, 310), strict=True))
    )
    assert [row.broker for row in flapping_brokers(actual, 300, 3).collect()] == [1]
    assert flapping_brokers(actual, 299, 3).count() == 0


def test_change_back_to_the_previous_leader_is_a_return(fast_spark: SparkSession) -> None:
    actual = states(
        fast_spark, *({"seq": seq, "leader": leader} for seq, leader in ((1, 1), (2, 2), (3, 1)))
    )
    [churn] = leader_churn(leader_changes(actual), logs(fast_spark)).collect()
    assert (churn.changes, churn.returns, churn.changes_per_hour) == (2, 1, 2.0)


def test_percentiles_are_calculated_by_group(fast_spark: SparkSession) -> None:
    terms = [
        {"term": term, "seconds": float(term), "version": "1", "size": size}
        for term, size in ((1, "0-9"), (2, "0-9"), (9, "10-99"))
    ]
    steps = rows(
        fast_spark,
        STEPS,
        {"term": 1, "step": "topics", "seconds": 0.5},
        {"term": 1, "step": "topics", "seconds": 0.25},
    )
    found = failover_percentiles(rows(fast_spark, FAILOVERS, *terms), steps).collect()
    actual = {(row.by, row.value, row.step): (row.failovers, row.p50, row.max) for row in found}
    assert actual["all", "", "total"] == (3, 2.0, 9.0)
    assert actual["size", "0-9", "total"] == (2, 1.5, 2.0)
    assert actual["cluster", "c", "topics"] == (1, 0.75, 0.75)


def race(spark: SparkSession, window_s: float, isr: list[int], channel: str = "api:2") -> list[Any]:
    """A broker departs a second after an ISR with it was proposed; then `isr` is written."""
    event = {"record": "event", "origin": "exogenous"}
    proposal = {"topic": "t", "partition": 0, "isr": [1, 2]}
    actual = records(
        spark,
        {
            **event,
            "seq": 1,
            "kind": "alter_partition_received",
            "channel": channel,
            "broker": 1,
            "partitions": [proposal],
            "payload": '{"request":7}',
        },
        {**event, "seq": 2, "kind": "children_read", "channel": "zookeeper:1"},
    )
    decided = states(
        spark,
        {"seq": 1, "leader": 1, "isr": [1, 2]},
        {"seq": 3, "decided_seq": 3, "leader": 1, "isr": isr, "rule": "AlterPartition"},
    )
    gone = changes(spark, {"seq": 2, "broker": 2, "change": "gone", "cause": "failure"})
    nothing = rows(spark, ZNODES)
    assigned = rows(spark, ASSIGNMENTS, {"topic": "t", "partition": 0})
    found = races(actual, nothing, assigned, decided, gone, logs(spark), window_s)
    return [(row.first_seq, row.seq, row.broker, row.verdict) for row in found.collect()]


def test_decision_that_keeps_a_departed_broker_missed_the_departure(
    fast_spark: SparkSession,
) -> None:
    assert race(fast_spark, 1.0, [1, 2]) == [(1, 2, 2, "missed")]
    assert race(fast_spark, 1.0, [1]) == [(1, 2, 2, "considered")]


def test_race_needs_two_channels_and_a_short_gap(fast_spark: SparkSession) -> None:
    assert race(fast_spark, 0.9, [1, 2]) == []
    assert race(fast_spark, 1.0, [1, 2], channel="zookeeper:1") == []


def test_znodes_deleted_by_missing_transactions_are_deleted(fast_spark: SparkSession) -> None:
    gone = {"record": "event", "origin": "exogenous", "term": 1, "kind": "znodes_gone"}
    payload = '{"paths":["/c/config/topics/t","/c/brokers/ids/1"]}'
    [row] = znodes(records(fast_spark, {**gone, "seq": 5, "payload": payload})).collect()
    assert (row.seq, row.action, row.path, row.is_found) == (5, "delete", "/c/brokers/ids/1", True)


def test_stale_requests_and_fenced_writes_are_zombies(fast_spark: SparkSession) -> None:
    event = {"record": "event", "origin": "reply", "cause": 1, "ordinal": 0, "term": 3}
    actual = records(
        fast_spark,
        {**event, "seq": 2, "kind": "znodes_written", "payload": '{"errors":[0,-1000]}'},
        {**event, "seq": 3, "kind": "znodes_written", "payload": '{"errors":[-103]}'},
        {**event, "seq": 4, "kind": "broker_answered", "payload": '{"error":11}'},
        {**event, "seq": 5, "kind": "broker_answered", "payload": '{"error":0}'},
        {**event, "seq": 6, "kind": "transaction", "path": "/p"},
        {
            **event,
            "seq": 7,
            "kind": "observed",
            "rule": "partition_state",
            "cause": 6,
            "payload": '{"epoch":2}',
        },
    )
    found = zombies(actual, rows(fast_spark, FAILOVERS)).collect()
    assert {row.seq: (row.how, row.zombie_term) for row in found} == {
        2: ("fenced_write", 3),
        4: ("stale_request", 3),
        6: ("late_write", 2),
    }
