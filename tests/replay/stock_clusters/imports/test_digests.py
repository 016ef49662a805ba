"""A record that was changed shows by the digest that its server wrote behind it."""

import tarfile
from collections.abc import Callable, Iterator

import pytest
from msgspec import structs

from replay.stock_clusters.imports.digests import Digests
from replay.stock_clusters.zookeeper_log.restoring import State
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
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING

History = list[Transaction]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """What a real ZooKeeper wrote, from its first transaction on."""
    folder = tmp_path_factory.mktemp("digests")
    with tarfile.open(RECORDING) as tar:
        tar.extractall(folder, filter="data")
    with open_source(folder) as source:
        return list(source.transactions(0))


def looked_at(history: History, state: State | None = None) -> Digests:
    state = state or State()
    digests = Digests(state.tree)
    follow(digests, state, iter(history))
    return digests


def follow(digests: Digests, state: State, history: Iterator[Transaction]) -> None:
    for one in history:
        digests.before()
        state.apply(one)
        digests.after(one, "log.1")


def state_after(history: History) -> State:
    state = State()
    for one in history:
        state.apply(one)
    return state


def places(history: History, is_it: Callable[[Transaction], bool]) -> list[int]:
    return [place for place, one in enumerate(history) if is_it(one)]


def is_set(one: Transaction) -> bool:
    return isinstance(one.content, SetData)


def is_multi(one: Transaction) -> bool:
    """That writes something."""
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


def test_what_a_server_wrote_comes_to_its_digests(history: History) -> None:
    assert len(history) > 500
    kinds = {type(one.content) for one in history}
    assert {Create, SetData, Delete, Multi, CloseSession} <= kinds
    digests = looked_at(history)
    assert (digests.notes, digests.altered) == ([], {})


@pytest.mark.parametrize("is_it", [is_set, is_multi])
def test_other_content_does_not(is_it: Callable[[Transaction], bool], history: History) -> None:
    """Nor does what is written in its place later; nothing else is told of."""
    place = places(history, is_it)[-3]
    changed = [*history[:place], with_other_data(history[place]), *history[place + 1 :]]
    digests = looked_at(changed)
    zxid = history[place].zxid
    assert 1 <= len(digests.altered) <= 2
    assert digests.altered[zxid] == "log.1"
    assert digests.notes[0].startswith(f"log.1: transaction {zxid:#x} does not match the digest")


def test_refused_ones_have_no_digest_and_change_nothing(history: History) -> None:
    assert places(history, is_refused)
    place = next(at for at in places(history, is_refused)[9:] if is_multi(history[at + 1]))
    changed = [*history[: place + 1], with_other_data(history[place + 1])]
    assert list(looked_at(changed).altered) == [history[place + 1].zxid]


def test_what_is_behind_one_that_is_gone_does_not(history: History) -> None:
    place = places(history, is_multi)[100]
    digests = looked_at(history[:place] + history[place + 1 :])
    assert history[place + 1].zxid in digests.altered


@pytest.mark.parametrize("others", [{"pzxid": 0}, {"creations": 1000}, {"creations": 0}])
@pytest.mark.parametrize("part", [2, 3, 5])
def test_znodes_of_a_snapshot_that_no_server_made_are_not_known(
    part: int, others: dict[str, int], history: History
) -> None:
    """Their counters may be others; what transactions write counts all the same."""
    half = len(history) // part
    state = state_after(history[:half])
    for path, znode in state.tree.dump().items():
        state.tree.put(path, structs.replace(znode, **others))
    assert looked_at(history[half:], state).altered == {}


def test_exact_znodes_of_a_snapshot_are_known(history: History) -> None:
    half = len(history) // 2
    place = next(one for one in places(history, is_set) if one > half + 5)
    changed = [*history[half:place], with_other_data(history[place]), *history[place + 1 :]]
    digests = looked_at(changed, state_after(history[:half]))
    assert history[place].zxid in digests.altered


def test_digests_that_are_counted_otherwise_tell_nothing(history: History) -> None:
    def counted(one: Transaction) -> Transaction:
        value = None if one.digest is None else TreeDigest(2, one.zxid)
        return structs.replace(one, digest=value)

    assert looked_at([counted(one) for one in history]).altered == {}
    other = [structs.replace(one, digest=TreeDigest(7, 1)) for one in history]
    assert looked_at(other).altered == {}
    none = [structs.replace(one, digest=None) for one in history]
    assert looked_at(none).altered == {}


def test_behind_missing_transactions_nothing_is_known(history: History) -> None:
    place = places(history, is_multi)[100]
    state = State()
    digests = Digests(state.tree)
    follow(digests, state, iter(history[:place]))
    digests.is_known = False
    follow(digests, state, iter(history[place + 20 : place + 60]))
    assert digests.altered == {}
