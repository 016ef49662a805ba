"""A record that was changed shows by its version."""

import tarfile
from pathlib import Path

import pytest
from msgspec import structs

from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.imports.versions import Versions
from replay.stock_clusters.zookeeper_log.restoring import State
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    Delete,
    Multi,
    OpCode,
    SetData,
    Transaction,
)
from tests.replay.stock_clusters.agreement.view import Written, create, transaction
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING
from tools.zookeeper_log.incidents import copy_all_but_logs, transactions_of, write_again

PATH, OTHER = "/a", "/b"
History = list[tuple[Written, ...]]


def wrote(version: int, path: str = PATH) -> SetData:
    return SetData(path, b"", version)


def told(history: History, *, is_known: bool = True) -> list[str]:
    """What is told of transactions, the first with zxid 1."""
    state = State()
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
        # Nobody knows what it was.
        [(wrote(7),)],
    ],
)
def test_versions_that_follow_one_another_are_right(history: History) -> None:
    assert told(history) == []


def test_first_that_does_not_follow_is_named_and_the_others_counted() -> None:
    history: History = [(create(PATH),), (wrote(1),), (wrote(3),), (wrote(3),), (wrote(4),)]
    assert told(history) == [
        "log.1: transaction 0x3 gives /a version 3, and it had version 1: the record was changed,"
        " or an earlier record is missing; 1 more have such a version"
    ]


def test_within_a_multi_each_follows_the_one_before() -> None:
    [note] = told([(create(PATH), wrote(1), wrote(1))])
    assert note.startswith("log.1: transaction 0x1 gives /a version 1, and it had version 1:")


def test_while_the_tree_is_not_known_nothing_is_told() -> None:
    assert told([(create(PATH),), (wrote(5),)], is_known=False) == []


def test_what_a_reconfiguration_writes_is_counted_otherwise() -> None:
    state = State()
    state.apply(transaction(1, create(PATH)))
    versions = Versions(state.tree)
    versions.check(Transaction(2, 7, 1, 0, int(OpCode.RECONFIG), wrote(5)), "log.1")
    assert versions.notes == []


def test_import_tells_of_a_topic_that_was_set_to_another_version(tmp_path: Path) -> None:
    with tarfile.open(RECORDING) as tar:
        tar.extractall(tmp_path, filter="data")
    source, copy = tmp_path / "chaos-5", tmp_path / "copy"
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
