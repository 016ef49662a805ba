"""An import of any ZooKeeper history ends with a log."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from eventstore.verify import verify
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    Check,
    CloseSession,
    Content,
    Create,
    CreateSession,
    Delete,
    Error,
    Multi,
    Operation,
    SetData,
    Transaction,
)
from tests.replay.stock_clusters.imports.cluster import EPOCH, REASSIGN, STATE, T, state, topic
from tests.replay.stock_clusters.zookeeper_log.samples import TRANSACTIONS, log_file, patient

TYPES = {
    Create: 1,
    SetData: 5,
    Delete: 2,
    Error: -1,
    Check: 13,
    Multi: 14,
    CreateSession: -10,
    CloseSession: -11,
}
PATHS = st.sampled_from(
    [
        *(EPOCH, "/controller", T, STATE, REASSIGN, "/brokers", "/brokers/ids", "/brokers/ids/1"),
        *("/brokers/topics", f"{T}/partitions", f"{T}/partitions/0", "/admin", "/feature"),
        *("/latest_producer_id_block", "/cluster", "/cluster/id", "/brokers/ids/x"),
        f"{T}/partitions/99999999999",
    ]
)
DATA = st.none() | st.sampled_from(
    [
        *(b"", b"0", b"-1", b"99999999999", b"{}", b"[]", b"null", b"\xff"),
        *(state(1, 0, 1, 2), state(1, 0, 1), topic([1, 2]), topic([3, 1, 2], [3], [1]), topic([])),
        *(b'{"brokerid":1}', b'{"brokerid":1e400}', b'{"topic_id":7}', b'{"partitions":{"x":[1]}}'),
        b'{"broker":2,"block_start":"0","block_end":"9"}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":[3,2]}]}',
    ]
)
CREATES = st.builds(Create, PATHS, DATA, st.just(OPEN_ACL), st.booleans(), st.integers(-1, 9))
SETS = st.builds(SetData, PATHS, DATA, st.integers(-3, 9))
DELETES = st.builds(Delete, PATHS)
ERRORS = st.builds(Error, st.sampled_from([-2, -101, -103, -110, 0]))
CHECKS = st.builds(Check, PATHS, st.integers(-3, 9)) | st.just(Check(EPOCH, 1))
OPERATIONS = CREATES | SETS | DELETES | ERRORS | CHECKS


def _multi(operations: list[Operation]) -> Multi:
    return Multi(tuple(TYPES[type(one)] for one in operations), tuple(operations))


CONTENTS = (
    CREATES
    | SETS
    | DELETES
    | st.lists(OPERATIONS, max_size=3).map(_multi)
    | st.builds(CreateSession, st.integers(0, 2**31 - 1))
    | st.builds(CloseSession, st.none())
)


def _in_order(contents: list[tuple[Content, int, int]]) -> list[Transaction]:
    """The transactions after those that create Kafka's root, so that a cluster is found."""
    begun = [Create(path, b"", OPEN_ACL, False, 1) for path in ("/brokers", "/brokers/ids")]
    typed = [*((one, 1, 0) for one in begun), *contents]
    return [
        Transaction(zxid, session, 1, time_ms, TYPES[type(one)], one)
        for zxid, (one, session, time_ms) in enumerate(typed, 1)
    ]


@patient
@given(
    st.lists(
        st.tuples(CONTENTS, st.integers(-2, 3), st.integers(-(2**63), 2**63 - 1)), max_size=30
    ).map(_in_order)
)
def test_any_history_of_kafkas_znodes_is_imported(history: list[Transaction]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log_file(Path(folder, "version-2"), history)
        result = import_source(Path(folder), Path(folder, "log"), Selection())
        assert result.transactions == len(history)
        assert verify(Path(folder, "log")).is_sound
        assert result.events == verify(Path(folder, "log")).events


@patient
@given(st.lists(TRANSACTIONS, max_size=10))
def test_any_transactions_are_imported(transactions: list[Transaction]) -> None:
    begun = _in_order([])
    by_zxid = {one.zxid: one for one in transactions if one.zxid > len(begun)}
    with tempfile.TemporaryDirectory() as folder:
        log_file(Path(folder, "version-2"), [*begun, *(by_zxid[one] for one in sorted(by_zxid))])
        result = import_source(Path(folder), Path(folder, "log"), Selection())
        assert result.transactions == len(by_zxid) + len(begun)
        assert verify(Path(folder, "log")).is_sound
