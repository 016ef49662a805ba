"""An imported log is read as it was written, also by a later version of refold."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from eventstore.errors import LogTooNew
from eventstore.reader import LogReader
from eventstore.verify import verify
from eventstore.writer import LogWriter
from replay.errors import ReplayError
from replay.logs.decode import UPCASTERS
from replay.stock_clusters.imported_log.encoding import (
    SCHEMAS,
    decode_event,
    encode_event,
    event_of,
)
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportBegun,
    ImportedEvent,
    ZnodesRestored,
)
from replay.stock_clusters.imported_log.reading import open_imported
from replay.stock_clusters.imported_log.state_events import (
    PIECE_BYTES_MAX,
    apply,
    changed_events,
    restore,
    restored_events,
)
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.znode_tree.tree import Znode
from tests.eventstore.samples import event, header
from tests.replay.recorded_log import incident, write_log
from tests.replay.stock_clusters.zookeeper_log.samples import TRANSACTIONS, patient

FORMAT_1 = Path(__file__).parent / "logs" / "format-1"
"""The beginning of an incident, written by the first version that made imported logs."""


def written(folder: Path, *events: ImportedEvent, **changes: Any) -> Path:
    records = [
        event(
            seq,
            kind=one.__struct_config__.tag,
            schema=SCHEMAS[one.__struct_config__.tag],
            payload=encode_event(one),
        )._replace(**changes)
        for seq, one in enumerate(events, 1)
    ]
    with LogWriter.create(folder, header(kind="world-backed")) as writer:
        writer.append(records)
    return folder


@patient
@given(TRANSACTIONS)
def test_transaction_is_read_as_it_was_written(transaction: Transaction) -> None:
    assert decode_event(encode_event(transaction)) == transaction


def states() -> st.SearchStrategy[ZooKeeperState]:
    sizes = st.lists(st.integers(0, 200_000), max_size=12)
    return st.builds(_state, sizes, st.dictionaries(st.integers(1, 2**62), st.integers(0, 9999)))


def _state(sizes: list[int], sessions: dict[int, int]) -> ZooKeeperState:
    state = ZooKeeperState()
    state.sessions = sessions
    for number, size in enumerate(sizes):
        owner = 7 if number % 3 == 0 else 0
        znode = Znode(b"x" * size, number, number + 1, 2, 3, 4, 5, owner, 6, 7)
        state.tree.put(f"/znode-{number}", znode)
    return state


@patient
@given(states())
def test_restored_state_equals_the_stored_one_and_its_events_are_small(
    state: ZooKeeperState,
) -> None:
    events = list(restored_events(state))
    for one in events:
        assert len(encode_event(one)) <= PIECE_BYTES_MAX
    restored = ZooKeeperState()
    for one in events:
        restore(restored, one)
    assert restored.tree.dump() == state.tree.dump()
    assert restored.tree.ephemerals(7) == state.tree.ephemerals(7)
    assert restored.sessions == state.sessions


@patient
@given(states(), states())
def test_changed_events_turn_one_state_into_another(
    before: ZooKeeperState, after: ZooKeeperState
) -> None:
    """A znode of the same name may be another znode, of another session."""
    for path, znode in [*after.tree.dump().items()][::2]:
        if path.startswith("/znode"):
            after.tree.remove(path)
            after.tree.put(path, structs.replace(znode, czxid=1000, owner=8))
    events = list(changed_events(before, after))
    for one in events:
        assert len(encode_event(one)) <= PIECE_BYTES_MAX
        apply(before, one)
    assert before.tree.dump() == after.tree.dump()
    assert [before.tree.ephemerals(one) for one in (7, 8)] == [
        after.tree.ephemerals(one) for one in (7, 8)
    ]
    assert before.sessions == after.sessions
    assert list(changed_events(before, after)) == []


def test_many_sessions_and_large_znodes_are_split_into_events() -> None:
    sessions = dict.fromkeys(range(1 << 40, (1 << 40) + 60_000), 1 << 30)
    state = _state([PIECE_BYTES_MAX + 1, 1, 1], sessions)
    events = list(restored_events(state))
    sizes = [len(encode_event(one)) for one in events]
    [large] = [one for one in events if len(encode_event(one)) > PIECE_BYTES_MAX]
    assert isinstance(large, ZnodesRestored)
    assert large.paths == ["/znode-0"]
    assert len(sizes) > 4


def test_recorded_log_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident())
    with LogReader(log) as reader, pytest.raises(ReplayError, match="is a recorded log"):
        open_imported(reader)


def test_log_without_its_first_event_is_refused(tmp_path: Path) -> None:
    observed = DecisionObserved(1, "election", 1, 1, 0, False)
    for name, events in (("one", [observed]), ("none", [])):
        log = written(tmp_path / name, *events)
        with LogReader(log, UPCASTERS) as reader, pytest.raises(ReplayError, match="import it"):
            open_imported(reader)


def test_log_with_only_its_first_state_is_read(tmp_path: Path) -> None:
    state = _state([3], {5: 6000})
    begun = ImportBegun("there", "version-2", 9, "")
    log = written(tmp_path / "log", begun, *restored_events(state))
    with LogReader(log, UPCASTERS) as reader:
        imported = open_imported(reader)
        assert (imported.begun, imported.state.zxid, imported.state.sessions) == (
            begun,
            9,
            {5: 6000},
        )
        assert list(imported.events()) == []


def test_event_that_cannot_be_decoded_is_reported_with_its_number() -> None:
    record = event(7, kind="observed", payload=b"\x93")
    with pytest.raises(ReplayError, match=r"event 7 \(observed\) cannot be decoded"):
        event_of(record)


def test_event_of_a_newer_refold_asks_for_an_upgrade(tmp_path: Path) -> None:
    begun = ImportBegun("there", "version-2", 9, "")
    log = written(tmp_path / "log", begun, schema=2)
    with LogReader(log, UPCASTERS) as reader, pytest.raises(LogTooNew, match="upgrade"):
        open_imported(reader)


def test_log_of_an_older_refold_is_read() -> None:
    assert verify(FORMAT_1).is_sound
    kinds = set()
    with LogReader(FORMAT_1, UPCASTERS) as reader:
        imported = open_imported(reader)
        assert imported.begun.chroot == "/prod/k1"
        assert imported.begun.zxid == imported.state.zxid
        for record, one in imported.events():
            kinds.add(record.kind)
            if isinstance(one, Transaction):
                imported.state.apply(one)
    assert imported.state.tree.get("/prod/k1/controller_epoch").data == b"3"
    later = {"sessions_gone", "znodes_gone", "world_resumed"}
    assert kinds == SCHEMAS.keys() - later - {
        "world_begun",
        "sessions_restored",
        "znodes_restored",
    }
