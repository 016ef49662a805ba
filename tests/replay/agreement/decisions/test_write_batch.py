"""Kafka's writes settle the fold's batch of writes."""

import pytest

from controller.core import operations
from controller.core.commands import CommandId
from controller.core.operations import WriteOperation
from replay.agreement.decisions.write_batch import SkippedWrite, WriteBatch
from replay.stock_clusters.zookeeper_log.transactions import Delete, Error, SetData
from tests.replay.agreement.view import (
    OTHER,
    STATE,
    TOPIC,
    Tree,
    create,
    decision,
    set_state,
    state_json,
)

ID = CommandId(3, 1)
DATA = state_json(1, 4, 1, 2)
OK = operations.OK


@pytest.fixture
def tree() -> Tree:
    """A tree in which the states of t-0 and t-1 were written twice."""
    made = Tree()
    for path in (STATE, OTHER):
        made.put(path, b"{}")
        made.put(path, b"{}")
    return made


def batch(tree: Tree, *writes: WriteOperation, is_atomic: bool = False) -> WriteBatch:
    return WriteBatch(ID, writes, tree.view, is_atomic=is_atomic)


def outcome(one: WriteBatch) -> tuple[list[int], list[int]]:
    """The errors and versions of a batch in which all writes are settled."""
    found = one.outcome
    assert found is not None
    assert found.command == ID
    return found.errors, found.versions


def claims(
    one: WriteBatch, *written: object, since: int = 10**6, **fields: object
) -> list[str] | None:
    return one.claim(decision(*written, **fields), since)  # type: ignore[arg-type]


def is_written_later(write: WriteOperation) -> bool:
    return False


def test_writes_are_settled_in_any_order_of_kafkas_writes(tree: Tree) -> None:
    one = batch(tree, set_state(DATA, 1), set_state(DATA, 1, OTHER))
    assert one.paths() == [STATE, OTHER]
    assert claims(one, SetData(OTHER, DATA, 2)) == []
    assert one.paths() == [STATE]
    assert one.outcome is None
    assert claims(one, SetData(STATE, DATA, 2)) == []
    assert outcome(one) == ([OK, OK], [2, 2])


def test_differing_write_is_reported_and_settled_as_kafka_did_it(tree: Tree) -> None:
    one = batch(tree, set_state(DATA, 1))
    assert claims(one, SetData(STATE, state_json(2, 4, 1, 2), 7)) == [
        f"{STATE}: at version 1, Kafka at 6",
        f"{STATE}: leader 1, Kafka 2",
    ]
    assert outcome(one) == ([OK], [7])


@pytest.mark.parametrize(
    "written", [SetData(OTHER, DATA, 2), Delete(STATE), create(STATE), SetData(TOPIC, b"", 1)]
)
def test_write_that_is_not_in_the_batch_claims_nothing(tree: Tree, written: object) -> None:
    one = batch(tree, set_state(DATA, 1))
    assert claims(one, written) is None
    assert one.paths() == [STATE]


def test_write_is_claimed_once(tree: Tree) -> None:
    one = batch(tree, set_state(DATA, 1), set_state(DATA, 2), set_state(DATA, 1, OTHER))
    assert claims(one, SetData(STATE, DATA, 2)) == []
    assert claims(one, SetData(STATE, DATA, 3)) == []
    assert claims(one, SetData(STATE, DATA, 4)) is None
    assert one.paths() == [OTHER]


def test_decision_of_several_writes_claims_all_or_none(tree: Tree) -> None:
    both = (create("/controller", b"1"), SetData("/controller_epoch", b"2", 3))
    elected = [
        operations.Create("/controller", b"1"),
        operations.SetData("/controller_epoch", b"2", 2),
    ]
    one = batch(tree, *elected, is_atomic=True)
    assert claims(one, *both, what="election") == []
    assert outcome(one) == ([OK, OK], [0, 3])
    one = batch(tree, elected[0], is_atomic=True)
    assert claims(one, *both, what="election") is None
    assert one.paths() == ["/controller"]


def test_decision_without_a_write_claims_nothing(tree: Tree) -> None:
    assert claims(batch(tree, set_state(DATA, 1))) is None


# Refused --------------------------------------------------------------------------------------


def test_refused_write_is_the_one_that_causes_the_error(tree: Tree) -> None:
    """ZooKeeper's log has no path. The write of t-1 would succeed; t-0 has another version."""
    one = batch(tree, set_state(DATA, 1, OTHER), set_state(DATA, 0))
    assert claims(one, Error(-103), what="refused", error=-103) == []
    assert one.paths() == [OTHER]
    assert claims(one, SetData(OTHER, DATA, 2)) == []
    assert outcome(one) == ([OK, operations.BAD_VERSION], [2, -1])


@pytest.mark.parametrize("error", [operations.NO_NODE, operations.NODE_EXISTS])
def test_error_that_no_write_causes_claims_nothing(tree: Tree, error: int) -> None:
    one = batch(tree, set_state(DATA, 0))
    assert claims(one, Error(error), what="refused", error=error) is None
    assert one.paths() == [STATE]


def test_write_to_a_missing_or_existing_node_is_refused(tree: Tree) -> None:
    one = batch(tree, operations.SetData("/gone", b"", 0), operations.Create(STATE, DATA))
    assert claims(one, Error(-110), what="refused", error=-110) == []
    assert claims(one, Error(-101), what="refused", error=-101) == []
    assert outcome(one) == ([operations.NO_NODE, operations.NODE_EXISTS], [-1, -1])


def test_write_with_a_version_that_may_be_outdated_is_refused(tree: Tree) -> None:
    """The znode changed after the last action that is known of the controller."""
    znode = tree.view.find(STATE)
    assert znode is not None
    one = batch(tree, set_state(DATA, 1))
    assert claims(one, Error(-103), what="refused", error=-103, since=znode.mzxid) is None
    assert claims(one, Error(-103), what="refused", error=-103, since=znode.mzxid - 1) == []
    assert outcome(one) == ([operations.BAD_VERSION], [-1])


def test_fenced_write_ends_the_batch(tree: Tree) -> None:
    """Kafka stops at a fenced write and does not try the rest."""
    one = batch(tree, set_state(DATA, 1), set_state(DATA, 1, OTHER))
    assert claims(one, Error(-103), Error(-2), what="fenced", error=-103) == []
    assert one.outcome is None
    assert one.skip(is_written_later) == []
    assert outcome(one) == ([operations.FENCED, operations.FENCED], [-1, -1])


def test_atomic_writes_are_refused_together(tree: Tree) -> None:
    elected = [
        operations.SetData(OTHER, b"2", 1),
        operations.Create(STATE, b"1"),
        operations.SetData(OTHER, b"2", 1),
    ]
    one = batch(tree, *elected, is_atomic=True)
    assert claims(one, Error(-103), what="election", error=-103) is None
    assert claims(one, Error(-110), what="election", error=-110) == []
    not_tried = operations.RUNTIME_INCONSISTENCY
    assert outcome(one) == ([not_tried, operations.NODE_EXISTS, not_tried], [-1, -1, -1])


@pytest.mark.parametrize("since", [0, 10**6])
@pytest.mark.parametrize("what", ["fenced", "refused"])
def test_atomic_batch_has_the_refused_decisions_that_it_claims(
    tree: Tree, what: str, since: int
) -> None:
    """Each of its writes would succeed, so ZooKeeper has refused another one."""
    one = batch(tree, set_state(DATA, 1), is_atomic=True)
    refused = decision(Error(-103), what=what, error=-103)
    assert not one.has(refused, since)
    assert one.claim(refused, since) is None


def test_question_whether_a_batch_has_a_fenced_write_does_not_fence_it(tree: Tree) -> None:
    one = batch(tree, set_state(DATA, 1), set_state(DATA, 1, OTHER))
    assert one.has(decision(Error(-103), Error(-2), what="fenced", error=-103), 0)
    assert not one.is_fenced
    one.skip(is_written_later)
    assert outcome(one) == ([OK, OK], [2, 2])


def test_settled_batch_has_no_fenced_write(tree: Tree) -> None:
    one = batch(tree, set_state(DATA, 1))
    assert claims(one, SetData(STATE, DATA, 2)) == []
    assert not one.has(decision(Error(-103), Error(-2), what="fenced", error=-103), 0)


# Skipped writes -----------------------------------------------------------------------------------


def test_write_that_kafka_did_not_do_is_returned_and_counts_as_done(tree: Tree) -> None:
    good, bad = set_state(DATA, 1), set_state(DATA, 0, OTHER)
    one = batch(tree, good, bad)
    assert one.skip(is_written_later) == [
        SkippedWrite(good, OK),
        SkippedWrite(bad, operations.BAD_VERSION),
    ]
    assert outcome(one) == ([OK, operations.BAD_VERSION], [2, -1])


def test_write_that_kafka_does_later_is_not_returned(tree: Tree) -> None:
    one = batch(tree, set_state(DATA, 1), set_state(DATA, 1, OTHER))
    left = one.skip(lambda write: write.path == STATE)
    assert [each.write.path for each in left] == [OTHER]
    assert outcome(one) == ([OK, OK], [2, 2])


def test_deletion_of_a_missing_znode_is_not_returned(tree: Tree) -> None:
    one = batch(tree, operations.Delete("/gone", -1), operations.Delete(STATE, -1))
    assert [each.write.path for each in one.skip(is_written_later)] == [STATE]
    assert outcome(one) == ([operations.NO_NODE, OK], [-1, -1])


def test_refused_deletion_of_a_missing_znode_is_claimed(tree: Tree) -> None:
    one = batch(tree, operations.Delete("/gone", -1))
    assert claims(one, Error(-101), what="refused", error=-101) == []
    assert outcome(one) == ([operations.NO_NODE], [-1])


def test_claimed_write_is_not_returned_as_skipped(tree: Tree) -> None:
    one = batch(tree, set_state(DATA, 1), set_state(DATA, 1, OTHER))
    assert claims(one, SetData(STATE, DATA, 2)) == []
    assert [each.write.path for each in one.skip(is_written_later)] == [OTHER]


def test_last_writes_are_repeated_after_lost_replies(tree: Tree) -> None:
    """The third write is done after the two that are repeated; the first was answered."""
    third = f"{TOPIC}/partitions/2/state"
    one = batch(tree, set_state(DATA, 1), set_state(DATA, 1, OTHER), operations.Create(third, DATA))
    for path in (STATE, OTHER):
        assert claims(one, SetData(path, DATA, 2)) == []
        tree.put(path, DATA)
    again = decision(Error(operations.BAD_VERSION), error=operations.BAD_VERSION)
    assert one.claim_repeated(again)
    assert one.paths() == [third]
    assert claims(one, create(third, DATA)) == []
    assert outcome(one) == ([OK, operations.BAD_VERSION, OK], [2, -1, 0])


def test_repeated_creation_is_answered_by_its_znode(tree: Tree) -> None:
    third = f"{TOPIC}/partitions/2/state"
    one = batch(tree, operations.Create(third, DATA))
    assert claims(one, create(third, DATA)) == []
    tree.put(third, DATA)
    again = decision(Error(operations.NODE_EXISTS), error=operations.NODE_EXISTS)
    assert claims(one, error=operations.NODE_EXISTS) is None
    assert not one.claim_repeated(
        decision(Error(operations.BAD_VERSION), error=operations.BAD_VERSION)
    )
    assert one.claim_repeated(again)
    assert not one.claim_repeated(again)
    assert outcome(one) == ([operations.NODE_EXISTS], [-1])


def test_repeated_election_was_won(tree: Tree) -> None:
    """Kafka then reads who is the controller."""
    election = operations.Create("/controller", b"{}")
    one = batch(tree, election, set_state(DATA, 1), is_atomic=True)
    assert claims(one, create("/controller", b"{}"), SetData(STATE, DATA, 2)) == []
    tree.put("/controller", b"{}")
    refused = decision(error=operations.NODE_EXISTS, what="election")
    assert claims(one, error=operations.NODE_EXISTS, what="election") is None
    assert one.claim_repeated(refused)
    assert outcome(one)[0] == [OK, OK]


def test_fenced_write_is_not_a_repetition(tree: Tree) -> None:
    one = batch(tree, set_state(DATA, 1))
    assert claims(one, SetData(STATE, DATA, 2)) == []
    tree.put(STATE, DATA)
    assert not one.claim_repeated(decision(error=operations.BAD_VERSION, what="fenced"))
