"""/brokers/epoch was deleted, emptied, set back or made unreadable by mistake: E-09."""

import pytest

from controller.core.error_codes import NONE
from controller.core.operations import Create, Delete, SetData, WriteOperation
from controller.core.values import ANY_VERSION
from controller.kafka_0_8.configuration import SECOND_RULES
from replay.world.kafka_0_8.cluster import Cluster08
from tests.controller.kafka_0_8.clusters import (
    cluster,
    error_of,
    issued,
    leader_of,
    notices,
    operations_of,
    replicated,
)

EPOCH = "/brokers/epoch"
U = ("u", 0)
DELETION = Delete(EPOCH, ANY_VERSION)
LOST: list[WriteOperation] = [
    DELETION,
    SetData(EPOCH, b"", ANY_VERSION),
    SetData(EPOCH, b"0", ANY_VERSION),
]


def two_topics(**settings: int) -> Cluster08:
    """Broker 1 leads t-0 in epoch 3, broker 3 leads u-0 alone in epoch 2, and knows nothing of
    t-0."""
    found = cluster(1, 2, 3, **settings)
    found.create_topic("t", {0: (1, 2)})
    found.start(1, 2, 3)
    found.run(1500)
    found.create_topic("u", {0: (3,)})
    found.run(500)
    found.write(Delete("/brokers/topics/t/0/leader", ANY_VERSION))
    found.run(1500)
    assert (leader_of(found), leader_of(found, U)) == ("1;3", "3;2")
    return found


@pytest.mark.parametrize("mistake", LOST, ids=["deleted", "emptied", "set back"])
def test_next_epoch_is_above_those_of_all_partitions(mistake: WriteOperation) -> None:
    found = two_topics()
    found.write(mistake)
    found.end_session(3)
    found.run(2000)
    assert (leader_of(found, U), found.data(EPOCH)) == ("3;4", "4")
    (notice,) = notices(found, 3, "epoch_restored")
    assert (notice.level, notice.subject) == ("warning", EPOCH)
    assert "the next one is 4, because the highest leader epoch of the partitions is 3" in (
        notice.text
    )
    found.write(Delete("/brokers/topics/t/0/leader", ANY_VERSION))
    found.run(2000)
    assert leader_of(found).endswith(";5")
    assert len(notices(found, 3, "epoch_restored")) == 1


GARBAGE = [
    (b"many", "'many'"),
    (b"-1", "'-1'"),
    (b"\xff\n", r"'\\xff\n'"),
    (b"2147483647", "'2147483647'"),
    (b"x" * 1000, f"'{'x' * 80}'"),
]


@pytest.mark.parametrize(("content", "shown"), GARBAGE)
def test_unreadable_epoch_is_reported_and_written_over(content: bytes, shown: str) -> None:
    found = two_topics()
    found.write(SetData(EPOCH, content, ANY_VERSION))
    found.end_session(3)
    found.run(2000)
    assert (leader_of(found, U), found.data(EPOCH)) == ("3;4", "4")
    (notice,) = notices(found, 3, "epoch_restored")
    assert (notice.level, notice.subject) == ("warning", EPOCH)
    assert notice.text.startswith(f"{EPOCH} has unreadable content, {shown}; the next one is 4,")


def test_unreadable_epoch_is_reported_although_no_partition_has_had_a_leader() -> None:
    found = cluster(1)
    found.write(SetData(EPOCH, b"many", ANY_VERSION))
    found.create_topic("t", {0: (1,)})
    found.start(1)
    assert leader_of(found) == "1;1"
    assert len(notices(found, 1, "epoch_restored")) == 1


def test_unreadable_epoch_that_changes_meanwhile_is_not_written_over() -> None:
    """An election of another broker or an administrator has written the znode since it was read."""
    found = two_topics()
    found.write(SetData(EPOCH, b"many", ANY_VERSION))
    found.end_session(3)
    found.run(2000)
    writes = [one for one in operations_of(found, 3, "E-06") if one.path == EPOCH]
    (written,) = [one for one in writes if one.data == b"4"]
    assert isinstance(written, SetData)
    assert written.version > ANY_VERSION


def test_epoch_without_a_next_one_is_never_left() -> None:
    found = two_topics()
    found.write(
        SetData(EPOCH, b"many", ANY_VERSION),
        SetData("/brokers/topics/t/0/ISR", b"1,2;2147483647", ANY_VERSION),
    )
    found.end_session(3)
    found.run(2000)
    assert leader_of(found, U) is None
    (notice,) = notices(found, 3, "epoch_unknown")
    assert "a partition has leader epoch 2147483647, which has no next one" in notice.text


def test_second_rules_elect_no_leader_while_the_epoch_is_unreadable() -> None:
    found = two_topics(rules=SECOND_RULES)
    found.write(SetData(EPOCH, b"many", ANY_VERSION))
    found.end_session(3)
    found.run(2000)
    assert (leader_of(found, U), found.data(EPOCH)) == (None, "many")
    assert EPOCH in notices(found, 3, "unreadable_znode")[0].text


@pytest.mark.parametrize(
    "mistake", [DELETION, SetData(EPOCH, b"1", ANY_VERSION)], ids=["deleted", "set back"]
)
def test_epoch_that_only_the_broker_has_known_counts(mistake: WriteOperation) -> None:
    found = two_topics()
    found.write(
        mistake,
        SetData("/brokers/topics/t/0/ISR", b"1,2;1", ANY_VERSION),
        Delete("/brokers/topics/t/0/leader", ANY_VERSION),
    )
    found.run(2000)
    assert leader_of(found)[2:] == "4"


def test_epoch_that_only_the_isr_shows_counts() -> None:
    """The epoch was set back while the brokers were down."""
    found = two_topics()
    found.stop(1)
    found.stop(2)
    found.write(SetData(EPOCH, b"2", ANY_VERSION))
    found.start(1, 2)
    found.run(2000)
    assert leader_of(found) == "1;4"


def test_epoch_of_a_leader_counts_although_its_isr_has_a_lower_one() -> None:
    found = two_topics()
    found.write(
        DELETION,
        SetData("/brokers/topics/t/0/ISR", b"1,2;1", ANY_VERSION),
        Delete("/brokers/topics/u/0/leader", ANY_VERSION),
    )
    found.run(2000)
    assert leader_of(found, U) == "3;4"


def test_partition_without_a_leader_and_other_znodes_do_not_matter() -> None:
    found = two_topics()
    found.write(DELETION, Create("/brokers/topics/t/first"))
    found.create_topic("v", {0: (2,)})
    found.stop(2)
    found.end_session(3)
    found.run(2000)
    assert leader_of(found, U) == "3;4"


def test_empty_isr_of_another_partition_is_unreadable() -> None:
    found = two_topics()
    isr = "/brokers/topics/t/0/ISR"
    found.write(SetData(isr, b"", ANY_VERSION), SetData(EPOCH, b"", ANY_VERSION))
    found.end_session(3)
    found.run(2000)
    assert leader_of(found, U) is None
    assert f"{isr} cannot be read as" in notices(found, 3, "epoch_unknown")[0].text


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics",
        "/brokers/topics/t",
        "/brokers/topics/t/0/ISR",
        "/brokers/topics/t/0/leader",
    ],
)
def test_no_leader_is_elected_while_the_highest_epoch_is_unknown(
    path: str, denied: list[str]
) -> None:
    found = two_topics()
    denied.append(path)
    found.write(DELETION, Delete("/brokers/topics/u/0/leader", ANY_VERSION))
    found.run(3000)
    assert (leader_of(found, U), found.data(EPOCH)) == (None, None)
    (notice,) = notices(found, 3, "epoch_unknown")
    assert (notice.level, notice.subject) == ("error", EPOCH)
    assert f"{path} cannot be read (NoAuth)" in notice.text
    denied.clear()
    found.run(500)
    assert leader_of(found, U) == "3;4"


def test_unreadable_isr_prevents_elections_until_it_is_corrected_or_the_epoch_is_set() -> None:
    found = two_topics()
    isr = "/brokers/topics/t/0/ISR"
    found.write(
        DELETION,
        SetData(isr, b"garbage", ANY_VERSION),
        Delete("/brokers/topics/u/0/leader", ANY_VERSION),
    )
    found.run(3000)
    assert leader_of(found, U) is None
    (notice,) = notices(found, 3, "epoch_unknown")
    assert isr in notice.text
    found.write(SetData(isr, b"1,2;3", ANY_VERSION))
    found.run(500)
    assert leader_of(found, U) == "3;4"
    found.write(
        DELETION,
        SetData(isr, b"garbage", ANY_VERSION),
        Delete("/brokers/topics/u/0/leader", ANY_VERSION),
    )
    found.run(3000)
    assert len(notices(found, 3, "epoch_unknown")) == 2


def test_leader_that_creates_the_znode_does_not_set_it_back() -> None:
    """Broker 3, with epoch 2, writes its ISR while broker 1 leads t-0 with epoch 3."""
    found = two_topics()
    found.write(DELETION)
    found.reassign(U, (3, 2))
    found.run(3000)
    assert found.data("/brokers/topics/u/0/ISR") == "3,2;2"
    assert found.data(EPOCH) == ""
    assert error_of(found, found.produce(3, U, ["a"], -1, wait_ms=1000)) == NONE
    found.write(Delete("/brokers/topics/u/0/leader", ANY_VERSION))
    found.run(2000)
    assert leader_of(found, U) == "3;4"


def test_topic_without_an_epoch_is_deleted_and_does_not_set_it_back() -> None:
    found = two_topics()
    found.write(DELETION)
    found.delete_topic("u")
    found.create_topic("u", {0: (3,)})
    found.run(2000)
    assert leader_of(found, U) == "3;4"


def test_second_rules_begin_with_epoch_1() -> None:
    found = two_topics(rules=SECOND_RULES)
    found.write(DELETION)
    found.end_session(3)
    found.run(2000)
    assert leader_of(found, U) == "3;1"
    assert issued(found, 3, "E-09") == []


def test_epoch_of_a_new_cluster_needs_no_warning() -> None:
    assert issued(replicated(), 1, "E-09") == []


def test_first_epoch_of_a_cluster_that_add_brokers_did_not_begin_needs_no_warning() -> None:
    found = cluster(1)
    found.write(DELETION)
    found.create_topic("t", {0: (1,)})
    found.start(1)
    assert leader_of(found) == "1;1"
    assert notices(found, 1, "epoch_restored") == []
