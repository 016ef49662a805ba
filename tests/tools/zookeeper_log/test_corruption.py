"""A corrupted copy of a recording differs from the recording in exactly one decision."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from replay.errors import ReplayError
from replay.stock_clusters.imported_log.events import DecisionObserved
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.data_folder import log_zxid
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import (
    Create,
    Error,
    Multi,
    SetData,
    Transaction,
)
from tools.zookeeper_log.corruption import KINDS, Corruption, corrupt
from tools.zookeeper_log.incidents import (
    IncidentTransactions,
    copy_all_but_logs,
    transactions_of,
    write_again,
)

FIELDS = KINDS[:7]


def transactions(folder: Path) -> list[Transaction]:
    """The transactions without the digests of the tree."""
    with open_source(folder) as source:
        logs = source.transactions()
        found = [structs.replace(one, digest=None) for one in logs]
        assert logs.damages == []
    return found


def decisions(folder: Path) -> dict[int, DecisionObserved]:
    with open_source(folder) as source:
        incident = IncidentTransactions(source)
        found = [incident.decisions.classify(one) for one in incident]
    return {one.zxid: one for one in found if isinstance(one, DecisionObserved)}


def corrupted(incident: Path, target: Path, how: str, seed: int = 7) -> Corruption:
    """Corrupts a copy, or skips the test: the small recording has no reassignment."""
    try:
        return corrupt(incident, target, seed, [how])
    except ReplayError:
        if incident.name != "chaos-5":
            pytest.skip(f"{incident.name} has no decision for {how}")
        raise


def written(transaction: Transaction) -> dict[str, Any]:
    assert isinstance(transaction.content, Multi)
    operation = transaction.content.operations[1]
    assert isinstance(operation, Create | SetData)
    return json.loads(operation.data or b"null")


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", FIELDS)
def test_one_field_of_one_decision_is_changed(
    tmp_path: Path, incident: Path, how: str, seed: int
) -> None:
    corruption = corrupted(incident, tmp_path / "copy", how, seed)
    whole, copy = transactions(incident), transactions(tmp_path / "copy")
    [(before, after)] = [pair for pair in zip(whole, copy, strict=True) if pair[0] != pair[1]]
    assert before.zxid == after.zxid == corruption.zxid
    old, new = written(before), written(after)
    assert (json.loads(corruption.before or ""), json.loads(corruption.after or "")) == (old, new)
    field = "partitions" if how == "replicas" else how
    assert {name for name in old if old[name] != new.get(name)} == {field}
    assert old.keys() == new.keys()
    if how == "isr":
        assert set(old["isr"]) != set(new["isr"])
        assert new["isr"]
    elif how.endswith("epoch"):
        assert abs(old[how] - new[how]) == 1
    assert structs.replace(after.content, operations=()) == structs.replace(
        before.content, operations=()
    )


@pytest.mark.sampled
@pytest.mark.parametrize("how", FIELDS)
def test_changed_transaction_remains_a_decision(tmp_path: Path, incident: Path, how: str) -> None:
    corruption = corrupted(incident, tmp_path / "copy", how)
    before, after = decisions(incident), decisions(tmp_path / "copy")
    assert before[corruption.zxid] == after[corruption.zxid]
    assert before[corruption.zxid].what == corruption.what
    assert (before[corruption.zxid].error, before[corruption.zxid].warm) == (0, False)


def test_dropped_write_leaves_a_gap(tmp_path: Path, incident: Path) -> None:
    corruption = corrupted(incident, tmp_path / "copy", "dropped")
    whole = transactions(incident)
    assert transactions(tmp_path / "copy") == [one for one in whole if one.zxid != corruption.zxid]
    result = import_source(tmp_path / "copy", tmp_path / "log", Selection())
    gap = f"between zxid {corruption.zxid - 1:#x} and {corruption.zxid + 1:#x} are missing"
    assert [one for one in result.gaps if gap in one] == result.gaps != []


def test_last_transaction_of_the_log_is_not_dropped(tmp_path: Path, incident: Path) -> None:
    """Without it the log only ends earlier, which no reader can notice."""
    until = min(zxid for zxid, one in decisions(incident).items() if one.what == "partition_state")
    shorter = tmp_path / "shorter"
    copy_all_but_logs(incident, shorter)
    with open_source(incident) as source:
        for log in source.server.logs:
            whole = transactions_of(log.path)
            write_again(log, shorter, (one for one in whole if one.zxid <= until))
    for seed in range(20):
        corruption = corrupt(shorter, tmp_path / str(seed), seed, ["dropped"])
        assert corruption.zxid < until


def test_blanked_write_is_a_refused_request(tmp_path: Path, incident: Path) -> None:
    corruption = corrupted(incident, tmp_path / "copy", "blanked")
    whole, copy = transactions(incident), transactions(tmp_path / "copy")
    [(before, after)] = [pair for pair in zip(whole, copy, strict=True) if pair[0] != pair[1]]
    assert before.zxid == corruption.zxid
    assert after == structs.replace(before, type=-1, content=Error(-101))
    assert import_source(tmp_path / "copy", tmp_path / "log", Selection()).gaps == []


@pytest.mark.parametrize("seed", range(5))
def test_doubled_write_follows_the_first_and_no_zxid_is_missing(
    tmp_path: Path, incident: Path, seed: int
) -> None:
    corruption = corrupted(incident, tmp_path / "copy", "doubled", seed)
    whole, copy = transactions(incident), transactions(tmp_path / "copy")
    place = next(place for place, one in enumerate(whole) if one.zxid == corruption.zxid)
    expected = [*whole[: place + 1], whole[place], *whole[place + 1 :]]
    done = [structs.replace(one, zxid=0) for one in copy]
    [*left_out] = [one for one in expected if structs.replace(one, zxid=0) not in done]
    assert len(left_out) == len(expected) - len(copy)
    assert all(isinstance(one.content, Error) for one in left_out)
    left = [structs.replace(one, zxid=0) for one in expected if one not in left_out]
    assert done == left
    assert [one.zxid for one in copy] == [*range(1, len(copy) + 1)]
    # The brokers' logs identify a broker by the zxid of its registration.
    assert registrations(copy) == registrations(whole)


def registrations(history: list[Transaction]) -> list[tuple[int, str]]:
    return [
        (one.zxid, operation.path)
        for one in history
        if isinstance(one.content, Multi) and not one.content.error
        for operation in one.content.operations
        if isinstance(operation, Create) and "/brokers/ids/" in operation.path
    ]


def test_remaining_files_are_copied(tmp_path: Path, incident: Path) -> None:
    corrupt(incident, tmp_path / "copy", seed=1)
    for path in incident.rglob("*"):
        copy = tmp_path / "copy" / path.relative_to(incident)
        if path.is_file() and log_zxid(path.name) is None:
            assert copy.read_bytes() == path.read_bytes()
        elif path.is_file():
            assert copy.stat().st_size == path.stat().st_size


@pytest.mark.sampled
def test_copy_depends_on_the_seed(tmp_path: Path, incident: Path) -> None:
    once, again = corrupt(incident, tmp_path / "1", 5), corrupt(incident, tmp_path / "2", 5)
    assert once == again
    assert transactions(tmp_path / "1") == transactions(tmp_path / "2")
    others = [corrupt(incident, tmp_path / f"other-{seed}", seed) for seed in range(20)]
    assert len({one.zxid for one in others}) > 10
    assert len({one.how for one in others}) > 4


@pytest.mark.sampled
def test_last_decision_of_a_term_is_marked(tmp_path: Path, incident: Path) -> None:
    done = [one for one in decisions(incident).items() if one[1].what != "election"]
    ends = {one.epoch: zxid for zxid, one in done if not one.error}
    for seed in range(20):
        corruption = corrupt(incident, tmp_path / str(seed), seed, ["dropped"])
        assert corruption.is_last_of_term is (corruption.zxid in ends.values())


def test_rewritten_log_has_the_same_bytes(tmp_path: Path, incident: Path) -> None:
    with open_source(incident) as source:
        for log in source.server.logs:
            (tmp_path / log.name).parent.mkdir(parents=True, exist_ok=True)
            path = write_again(log, tmp_path, transactions_of(log.path))
            assert path == tmp_path / log.name
            assert path.read_bytes() == log.path.read_bytes()
