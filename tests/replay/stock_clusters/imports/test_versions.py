"""A changed record is found by the znode version that it writes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.imports.versions import Versions
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    Delete,
    Multi,
    OpCode,
    SetData,
    Transaction,
)
from tests.replay.agreement.view import Written, create, transaction
from tools.zookeeper_log.incidents import copy_all_but_logs, transactions_of, write_again

PATH, OTHER = "/a", "/b"
History = list[tuple[Written, ...]]


def wrote(version: int, path: str = PATH) -> SetData:
    return SetData(path, b"", version)


def notes_of(history: History, *, is_known: bool = True) -> list[str]:
    """The notes about a history; the first transaction has zxid 1."""
    state = ZooKeeperState()
    versions = Versions(state.tree)
    versions.is_known = is_known
    for zxid, written in enumerate(history, start=1):
        one = transaction(zxid, *written)
        versions.check(one, "log.1")
        state.apply(one)
    return versions.notes


@pytest.mark.parametrize(
    "history",
    [
        [(create(PATH),), (wrote(1),), (wrote(2),)],
        [(create(PATH), wrote(1), wrote(2)), (wrote(3),)],
        [(create(PATH),), (wrote(1),), (Delete(PATH), create(PATH), wrote(1)), (wrote(2),)],
        [(create(PATH),), (create(OTHER),), (Check(PATH, 0), wrote(1), wrote(1, OTHER))],
        # The previous version is unknown.
        [(wrote(7),)],
    ],
)
def test_consecutive_versions_are_not_reported(history: History) -> None:
    assert notes_of(history) == []


def test_first_wrong_version_is_described_and_the_others_are_counted() -> None:
    history: History = [(create(PATH),), (wrote(1),), (wrote(3),), (wrote(3),), (wrote(4),)]
    assert notes_of(history) == [
        "log.1: transaction 0x3 gives /a version 3, and it had version 1: the record was changed,"
        " or an earlier record is missing; 1 more have such a version"
    ]


def test_wrong_version_within_a_multi_is_reported() -> None:
    [note] = notes_of([(create(PATH), wrote(1), wrote(1))])
    assert note.startswith("log.1: transaction 0x1 gives /a version 1, and it had version 1:")


def test_versions_of_an_unknown_tree_are_not_reported() -> None:
    assert notes_of([(create(PATH),), (wrote(5),)], is_known=False) == []


def test_version_of_a_reconfiguration_is_ignored() -> None:
    state = ZooKeeperState()
    state.apply(transaction(1, create(PATH)))
    versions = Versions(state.tree)
    versions.check(Transaction(2, 7, 1, 0, int(OpCode.RECONFIG), wrote(5)), "log.1")
    assert versions.notes == []


def test_import_reports_a_topic_with_a_changed_version(
    folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    source, copy = folder_of("chaos-5"), tmp_path / "copy"
    changed: list[Transaction] = []

    def change(one: Transaction) -> Transaction:
        content = one.content
        if changed or not isinstance(content, Multi) or content.error:
            return one
        operations = tuple(
            structs.replace(each, version=each.version + 1) if is_topic_set(each) else each
            for each in content.operations
        )
        if operations != content.operations:
            changed.append(one)
        return structs.replace(one, content=structs.replace(content, operations=operations))

    with open_source(source) as opened:
        copy_all_but_logs(source, copy)
        for log in opened.server.logs:
            write_again(log, copy, map(change, transactions_of(log.path)))
    result = import_source(copy, tmp_path / "log", Selection())
    [zxid] = [one.zxid for one in changed]
    [note] = [one for one in result.notes if " version " in one]
    assert f"log.1: transaction {zxid:#x} gives " in note
    assert "/brokers/topics/" in note
    assert result.gaps == result.damages == []


def is_topic_set(operation: object) -> bool:
    if not isinstance(operation, SetData):
        return False
    parent, _, _ = operation.path.rpartition("/")
    return parent.endswith("/brokers/topics")
