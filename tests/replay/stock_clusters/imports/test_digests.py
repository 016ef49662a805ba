"""A changed record is found by the digest that its server wrote after it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from replay.stock_clusters.imports.digests import Digests
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Create,
    Delete,
    Multi,
    SetData,
    Transaction,
    TreeDigest,
)

History = list[Transaction]


@pytest.fixture(scope="module")
def history(folder_of: Callable[[str], Path]) -> History:
    """The transactions that a real ZooKeeper wrote, from the first one."""
    with open_source(folder_of("chaos-5")) as source:
        return list(source.transactions(0))


def checked(history: History, state: ZooKeeperState | None = None) -> Digests:
    state = state or ZooKeeperState()
    digests = Digests(state.tree)
    follow(digests, state, iter(history))
    return digests


def follow(digests: Digests, state: ZooKeeperState, history: Iterator[Transaction]) -> None:
    for one in history:
        digests.before()
        state.apply(one)
        digests.after(one, "log.1")


def state_after(history: History) -> ZooKeeperState:
    state = ZooKeeperState()
    for one in history:
        state.apply(one)
    return state


def places(history: History, matches: Callable[[Transaction], bool]) -> list[int]:
    return [place for place, one in enumerate(history) if matches(one)]


def is_set(one: Transaction) -> bool:
    return isinstance(one.content, SetData)


def is_multi(one: Transaction) -> bool:
    """Whether a transaction is a multi with a write."""
    if not isinstance(one.content, Multi) or one.content.error:
        return False
    return any(isinstance(each, SetData) for each in one.content.operations)


def is_refused(one: Transaction) -> bool:
    return one.digest is None


def with_other_data(one: Transaction) -> Transaction:
    content = one.content
    if isinstance(content, Multi):
        operations = tuple(
            structs.replace(each, data=b"{}") if isinstance(each, (SetData, Create)) else each
            for each in content.operations
        )
        return structs.replace(one, content=structs.replace(content, operations=operations))
    return structs.replace(one, content=structs.replace(content, data=b"{}"))


def test_transactions_of_a_server_match_their_digests(history: History) -> None:
    assert len(history) > 500
    kinds = {type(one.content) for one in history}
    assert {Create, SetData, Delete, Multi, CloseSession} <= kinds
    digests = checked(history)
    assert (digests.notes, digests.altered) == ([], {})


@pytest.mark.parametrize("matches", [is_set, is_multi])
def test_changed_content_is_reported(
    matches: Callable[[Transaction], bool], history: History
) -> None:
    """A later write of the same znode may be reported as well; no other transaction is."""
    place = places(history, matches)[-3]
    changed = [*history[:place], with_other_data(history[place]), *history[place + 1 :]]
    digests = checked(changed)
    zxid = history[place].zxid
    assert 1 <= len(digests.altered) <= 2
    assert digests.altered[zxid] == "log.1"
    assert digests.notes[0].startswith(f"log.1: transaction {zxid:#x} does not match the digest")


def test_refused_transactions_without_a_digest_are_skipped(history: History) -> None:
    assert places(history, is_refused)
    place = next(at for at in places(history, is_refused)[9:] if is_multi(history[at + 1]))
    changed = [*history[: place + 1], with_other_data(history[place + 1])]
    assert list(checked(changed).altered) == [history[place + 1].zxid]


def test_transaction_after_a_missing_one_is_reported(history: History) -> None:
    place = places(history, is_multi)[100]
    digests = checked(history[:place] + history[place + 1 :])
    assert history[place + 1].zxid in digests.altered


@pytest.mark.parametrize("others", [{"pzxid": 0}, {"creations": 1000}, {"creations": 0}])
@pytest.mark.parametrize("part", [2, 3, 5])
def test_digests_after_an_inexact_snapshot_report_nothing(
    part: int, others: dict[str, int], history: History
) -> None:
    """The counters of the znodes may differ; writes of transactions are known nevertheless."""
    half = len(history) // part
    state = state_after(history[:half])
    for path, znode in state.tree.dump().items():
        state.tree.put(path, structs.replace(znode, **others))
    assert checked(history[half:], state).altered == {}


def test_changed_content_after_an_exact_snapshot_is_reported(history: History) -> None:
    half = len(history) // 2
    place = next(one for one in places(history, is_set) if one > half + 5)
    changed = [*history[half:place], with_other_data(history[place]), *history[place + 1 :]]
    digests = checked(changed, state_after(history[:half]))
    assert history[place].zxid in digests.altered


def test_digests_of_another_version_report_nothing(history: History) -> None:
    def counted(one: Transaction) -> Transaction:
        value = None if one.digest is None else TreeDigest(2, one.zxid)
        return structs.replace(one, digest=value)

    assert checked([counted(one) for one in history]).altered == {}
    other = [structs.replace(one, digest=TreeDigest(7, 1)) for one in history]
    assert checked(other).altered == {}
    none = [structs.replace(one, digest=None) for one in history]
    assert checked(none).altered == {}


def test_digests_after_missing_transactions_report_nothing(history: History) -> None:
    place = places(history, is_multi)[100]
    state = ZooKeeperState()
    digests = Digests(state.tree)
    follow(digests, state, iter(history[:place]))
    digests.is_known = False
    follow(digests, state, iter(history[place + 20 : place + 60]))
    assert digests.altered == {}
