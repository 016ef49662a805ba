"""Races of reassignments in planted orders of events, and in recorded incidents. Each order is a
separate log; one query judges all of them."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    request_path,
)
from replay.fleet import decoding, manifest
from replay.fleet.analysis.failovers import failovers
from replay.fleet.analysis.logs import logs
from replay.fleet.analysis.partitions import assignments, partition_states
from replay.fleet.analysis.reassignment_races import (
    reassignment_changes,
    reassignment_pairs,
    reassignment_races,
    reassignment_steps,
)
from replay.fleet.analysis.znodes import znodes
from replay.fleet.ingest import ingest
from replay.subjects import subject_of
from tests.replay.fleet.analysis.small_tables import (
    FAILOVERS,
    LOGS,
    ZNODES,
    not_compiled,
    records,
    rows,
)

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ASSIGNMENTS = """cluster string, log string, seq bigint, place bigint, time timestamp, topic string,
    partition bigint, replicas array<bigint>, adding array<bigint>, removing array<bigint>,
    rule string, decided_seq bigint, is_found boolean"""
CHANNEL = "zookeeper:1"
REQUESTS = [request_path(f"request_{number:010}") for number in range(2)]
BAD_VERSION = -103
Pairs = list[tuple[str, str, str]]
ORDERS: dict[str, "Order"] = {}


class Order:
    """The events of a log: event N happens at second N. Partition t-0 has replicas 1 and 2. Each
    order of events is also a separate cluster."""

    def __init__(self, name: str, *expected: tuple[str, str, str]) -> None:
        self.name, self.expected = name, sorted(expected)
        self.records: list[dict[str, Any]] = []
        self.znodes: list[dict[str, Any]] = []
        self.assignments: list[dict[str, Any]] = []
        self.failovers: list[dict[str, Any]] = []
        ORDERS[name] = self
        self._assigned(0, [1, 2], [], [], None)

    def watch(self, seq: int, path: str, change: str = "data") -> "Order":
        """A watch event."""
        event = {"record": "event", "kind": "watch_fired", "origin": "exogenous"}
        payload = json.dumps({"change": change})
        self._record({**event, "seq": seq, "channel": CHANNEL, "path": path, "payload": payload})
        return self

    def read(self, seq: int, path: str, content: dict[str, Any]) -> "Order":
        """The controller's read of a znode."""
        return self._znode(seq, path, json.dumps(content), {"action": "read", "is_found": True})

    def written(self, seq: int, path: str, content: dict[str, Any]) -> "Order":
        """A change by a client, as the watch event and the read after it report it."""
        parent = REASSIGNMENT_REQUESTS if path in REQUESTS else path
        return self.watch(seq, parent).read(seq + 1, path, content)

    def refused(self, decided: int, seq: int, path: str) -> "Order":
        """The controller's write of a znode with a version that another client had replaced."""
        write = {"action": "set", "error": BAD_VERSION, "decided_seq": decided, "rule": "move"}
        return self._znode(seq, path, "{}", write)

    def begun(self, decided: int, seq: int, third: int) -> "Order":
        """The controller begins the reassignment from [1, 2] to [1, third]."""
        return self._assigned(seq, [1, third, 2], [third], [2], decided)

    def ended(self, decided: int, seq: int, *replicas: int) -> "Order":
        """The controller ends the reassignment."""
        return self._assigned(seq, [*replicas], [], [], decided)

    def noted(self, seq: int, rule: str) -> "Order":
        """A message of the controller about the partition."""
        notice = {"record": "command", "kind": "notice", "seq": seq, "ordinal": 0}
        self._record({**notice, "rule": rule, "target": "t-0"})
        return self

    def failover(self, seq: int, ended: int, term: int) -> "Order":
        """A term of the daemon."""
        term_row = {"kind": "recorded", "term": term, "seq": seq, "ended_seq": ended}
        self.failovers.append({**term_row, "cluster": self.name})
        return self

    def _record(self, one: dict[str, Any]) -> None:
        self.records.append({"cluster": self.name, **one})

    def _znode(self, seq: int, path: str, data: str, more: dict[str, Any]) -> "Order":
        one = {"seq": seq, "place": 0, "channel": CHANNEL, "path": path, "data": data, "error": 0}
        kind = {"znode": subject_of(path).kind, "is_found": False, "cluster": self.name}
        self.znodes.append({**one, **kind, **more})
        return self

    def _assigned(
        self, seq: int, replicas: list[int], adding: list[int], removing: list[int], by: int | None
    ) -> "Order":
        one = {"seq": seq, "place": 0, "topic": "t", "partition": 0, "is_found": by is None}
        sets = {"replicas": replicas, "adding": adding, "removing": removing}
        write = {"decided_seq": by, "rule": "reassignment: store the assignment"}
        self.assignments.append({**one, **sets, **write, "cluster": self.name})
        return self


def entry(third: int) -> dict[str, Any]:
    """The content of either znode with entries: move the partition to [1, third]."""
    return {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, third]}]}


def request(third: int) -> dict[str, Any]:
    return {"version": 1, "assignments": {"t": {"0": [1, third]}}}


NOTHING: dict[str, Any] = {"version": 1, "partitions": []}
CANCEL = {"version": 1}
FORCED = {"version": 1, "force": True}

# The cancellation --------------------------------------------------------------------------------

(
    Order("older entry is dropped", ("entry_written", "cancel_created", "considered"))
    .written(10, REASSIGN_PARTITIONS, entry(3))
    .watch(12, REASSIGN_CANCEL, "created")
    .read(13, REASSIGN_CANCEL, CANCEL)
    .noted(14, "reassignment_cancelled")
)
(
    Order(
        "younger entry waits until the cancellation is deleted",
        ("cancel_created", "entry_written", "considered"),
        ("entry_written", "cancel_deleted", "considered"),
    )
    .watch(10, REASSIGN_CANCEL, "created")
    .written(12, REASSIGN_PARTITIONS, entry(3))
    .watch(14, REASSIGN_CANCEL, "deleted")
    .begun(15, 16, 3)
)
(
    Order(
        "younger entry begins during the cancellation",
        ("cancel_created", "entry_written", "missed"),
    )
    .watch(10, REASSIGN_CANCEL, "created")
    .written(12, REASSIGN_PARTITIONS, entry(3))
    .begun(14, 15, 3)
)
(
    Order(
        "extra entry and request wait",
        ("extra_written", "cancel_created", "considered"),
        ("cancel_created", "request_written", "considered"),
        ("request_written", "cancel_deleted", "considered"),
    )
    .written(10, REASSIGN_PARTITIONS_EXTRA, entry(3))
    .watch(12, REASSIGN_CANCEL, "created")
    .written(13, REQUESTS[0], request(3))
    .watch(15, REASSIGN_CANCEL, "deleted")
    .begun(16, 17, 3)
)
(
    Order(
        "completion was decided before the cancellation arrived",
        ("reassignment_completed", "cancel_created", "missed"),
    )
    .begun(1, 2, 3)
    .watch(11, REASSIGN_CANCEL, "created")
    .ended(10, 12, 1, 3)
)
(
    Order(
        "forced rollback",
        ("reassignment_begun", "cancel_created", "considered"),
        ("cancel_created", "cancel_forced", "considered"),
    )
    .begun(9, 10, 3)
    .watch(11, REASSIGN_CANCEL, "created")
    .read(12, REASSIGN_CANCEL, CANCEL)
    .watch(13, REASSIGN_CANCEL)
    .read(14, REASSIGN_CANCEL, FORCED)
    .ended(15, 16, 1, 2)
)
(
    Order("cancellation long after the beginning")
    .begun(9, 10, 3)
    .watch(30, REASSIGN_CANCEL, "created")
    .ended(31, 32, 1, 2)
)

# The extra entries -------------------------------------------------------------------------------

(
    Order(
        "extra entries change between the read and the write",
        ("extra_read", "extra_written", "missed"),
    )
    .read(10, REASSIGN_PARTITIONS_EXTRA, NOTHING)
    .watch(12, REASSIGN_PARTITIONS_EXTRA)
    .refused(11, 13, REASSIGN_PARTITIONS_EXTRA)
    .read(14, REASSIGN_PARTITIONS_EXTRA, entry(3))
    .begun(15, 16, 3)
)
(
    Order(
        "extra entry replaces a reassignment", ("reassignment_begun", "extra_written", "considered")
    )
    .begun(9, 10, 3)
    .written(11, REASSIGN_PARTITIONS_EXTRA, entry(4))
    .ended(13, 14, 1, 2)
)
(
    Order(
        "replaced reassignment completes first",
        ("reassignment_begun", "extra_written", "missed"),
    )
    .begun(9, 10, 3)
    .written(11, REASSIGN_PARTITIONS_EXTRA, entry(4))
    .ended(13, 14, 1, 3)
)

# The requests ------------------------------------------------------------------------------------

(
    Order(
        "request is rejected because the entry holds the partition",
        ("entry_written", "request_written", "considered"),
    )
    .written(10, REASSIGN_PARTITIONS, entry(3))
    .written(12, REQUESTS[0], request(4))
    .noted(14, "reassignment_refused")
)
(
    Order(
        "two requests are carried out one after the other",
        ("request_written", "request_written", "missed"),
    )
    .watch(10, REASSIGNMENT_REQUESTS)
    .read(11, REQUESTS[0], request(3))
    .read(11, REQUESTS[1], request(4))
    .begun(12, 13, 3)
    .begun(14, 15, 4)
)

# A term of another controller --------------------------------------------------------------------

for decision, verdict, replicas in (
    ("rollback", "considered", (1, 2)),
    ("completion", "missed", (1, 3)),
):
    (
        Order(
            f"{decision} after a term of another controller",
            ("other_controller", "cancel_found", verdict),
            ("other_controller", "entry_found", "considered"),
        )
        .failover(10, 15, term=4)
        .read(11, REASSIGN_PARTITIONS, entry(3))
        .read(12, REASSIGN_CANCEL, CANCEL)
        .begun(1, 2, 3)
        .ended(20, 21, *replicas)
    )
(
    Order("failover after a term of this daemon")
    .failover(1, 2, term=3)
    .failover(10, 15, term=4)
    .read(11, REASSIGN_PARTITIONS, entry(3))
    .begun(16, 17, 3)
)


@pytest.fixture(scope="module")
def fast_spark(spark: SparkSession) -> Iterator[SparkSession]:
    with not_compiled(spark):
        yield spark


class Store:
    """Stores tables, as the analysis does: others are computed from them several times."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def __call__(self, name: str, frame: DataFrame) -> DataFrame:
        path = str(self._folder / name)
        frame.write.parquet(path)
        return self._spark.read.schema(frame.schema).parquet(path)


def found_races(
    store: Store,
    of: DataFrame,
    written: DataFrame,
    assigned: DataFrame,
    terms: DataFrame,
    analysed: DataFrame,
    window_s: float,
) -> list[Any]:
    """The races, from the tables that they are computed from."""
    changes = store("changes", reassignment_changes(of, written, terms))
    steps = store("steps", reassignment_steps(assigned, written))
    pairs = store("pairs", reassignment_pairs(changes, steps, written, terms, window_s))
    return reassignment_races(of, written, changes, steps, pairs, analysed).collect()


@pytest.fixture(scope="module")
def found_pairs(
    fast_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Pairs]:
    orders = list(ORDERS.values())
    store = Store(fast_spark, tmp_path_factory.mktemp("planted"))
    log_rows = ({"cluster": one.name, "version": "1"} for one in orders)
    races = found_races(
        store,
        store("records", records(fast_spark, *(row for one in orders for row in one.records))),
        store("znodes", rows(fast_spark, ZNODES, *(row for one in orders for row in one.znodes))),
        rows(fast_spark, ASSIGNMENTS, *(row for one in orders for row in one.assignments)),
        store(
            "terms", rows(fast_spark, FAILOVERS, *(row for one in orders for row in one.failovers))
        ),
        rows(fast_spark, LOGS, *log_rows),
        3.0,
    )
    pairs: dict[str, Pairs] = {}
    for row in races:
        pairs.setdefault(row.cluster, []).append((row.first_what, row.what, row.verdict))
    return pairs


@pytest.mark.parametrize("order", ORDERS)
def test_planted_order_has_its_races_and_verdicts(
    found_pairs: dict[str, Pairs], order: str
) -> None:
    assert sorted(found_pairs.get(order, [])) == ORDERS[order].expected


# Recorded incidents ------------------------------------------------------------------------------

INCIDENTS = Path(__file__).parents[3] / "incidents"
EXPECTED = {
    "cancellation": {
        ("reassignment_begun", 131, "cancel_created", "considered", "reassignment_rolled_back"),
    },
    "cancellation-failover": {
        ("other_controller", 40, "entry_found", "considered", "reassignment_rolled_back"),
        ("other_controller", 42, "cancel_found", "considered", "reassignment_rolled_back"),
    },
    "extra-conflict": {
        ("reassignment_begun", 113, "extra_written", "considered", "reassignment_rolled_back"),
    },
    "legacy-request": {
        ("reassignment_begun", 157, "request_written", "considered", "rejected"),
        ("reassignment_completed", 157, "legacy_request_written", "considered", "rejected"),
        ("request_written", 171, "cancel_created", "considered", "reassignment_rolled_back"),
    },
}
"""The races with a decision. Event 113 of extra-conflict comes 1.4 s after the beginning."""


@pytest.fixture(scope="module")
def recorded(
    fast_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, set[Any]]:
    folder = tmp_path_factory.mktemp("incidents")
    for name in EXPECTED:
        with tarfile.open(INCIDENTS / name / "log.tar.xz") as tar:
            tar.extractall(folder / "logs" / name, filter="data")
    table = folder / "table"
    assert ingest(fast_spark, [str(folder / "logs")], table).set_aside == 0
    segments = manifest.segments(fast_spark, table)
    names = {one.log: Path(one.path).parents[1].name for one in segments.collect()}
    store = Store(fast_spark, folder / "tables")
    of = decoding.records(fast_spark, table)
    analysed = store("logs", logs(of, segments))
    written = store("znodes", znodes(of))
    assigned = store("assignments", assignments(written))
    states = store("states", partition_states(of, written, assigned, analysed))
    terms = store("failovers", failovers(of, states, analysed))
    races: dict[str, set[Any]] = {}
    for row in found_races(store, of, written, assigned, terms, analysed, 2.0):
        if row.verdict != "undecided":
            race = row.first_what, row.seq, row.what, row.verdict, row.decision_what
            races.setdefault(names[row.log], set()).add(race)
    return races


@pytest.mark.parametrize("incident", EXPECTED)
def test_recorded_incident_has_its_races(recorded: dict[str, set[Any]], incident: str) -> None:
    assert recorded[incident] == EXPECTED[incident]
