"""Paths and contents of the znodes of the 0.8 design."""

from collections.abc import Callable

import pytest

from controller.core.errors import ZnodeError
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.znodes import Isr, LeaderZnode, StateChange

PATH = "/brokers/topics/t/0/x"


def test_paths_are_those_of_the_design() -> None:
    assert [
        znodes.broker_path(3),
        znodes.replicas_path("t", 0),
        znodes.leader_path("t", 0),
        znodes.isr_path("t", 0),
        znodes.reassigned_path("t", 0),
        znodes.EPOCH,
        znodes.state_path(3),
    ] == [
        "/brokers/ids/3",
        "/brokers/topics/t/0/replicas",
        "/brokers/topics/t/0/leader",
        "/brokers/topics/t/0/ISR",
        "/brokers/partitions_reassigned/t/0",
        "/brokers/epoch",
        "/brokers/state/3",
    ]


def test_content_of_each_znode_is_decoded() -> None:
    change = StateChange("close-replica", "t", 0)
    assert znodes.read_brokers(PATH, b"3,1,2") == (3, 1, 2)
    assert znodes.read_leader(PATH, b"3;7") == LeaderZnode(3, 7)
    assert znodes.read_isr(PATH, b"3,1;7") == Isr((3, 1), 7)
    assert znodes.read_epoch(b"7\n") == 7
    assert znodes.read_address(PATH, b"host:9092") == "host:9092"
    assert znodes.read_state_change(PATH, znodes.write_state_change(change)) == change


def test_written_content_is_read_again() -> None:
    assert znodes.read_brokers(PATH, znodes.write_brokers((3, 1))) == (3, 1)
    assert znodes.read_leader(PATH, znodes.write_leader(LeaderZnode(3, 7))) == LeaderZnode(3, 7)
    assert znodes.read_isr(PATH, znodes.write_isr(Isr((3,), 7))) == Isr((3,), 7)
    assert znodes.read_epoch(znodes.write_epoch(7)) == 7


@pytest.mark.parametrize(
    ("read", "data", "why"),
    [
        (znodes.read_brokers, None, "the list is empty"),
        (znodes.read_brokers, b"", "the list is empty"),
        (znodes.read_brokers, b"1,1", "names a broker twice"),
        (znodes.read_brokers, b"1,x", "'x' is no number"),
        (znodes.read_brokers, b"1,", "'' is no number"),
        (znodes.read_brokers, b"01", "'01' is no number"),
        (znodes.read_brokers, b"99999999999", "is no number"),
        (znodes.read_brokers, b"\xe4", "it has other characters"),
        (znodes.read_leader, b"1", "'' is no number"),
        (znodes.read_leader, b"1;2;3", "'2;3' is no number"),
        (znodes.read_isr, b";3", "the list is empty"),
        (znodes.read_isr, b"1,2", "'' is no number"),
        (znodes.read_address, b"host", "'host'"),
        (znodes.read_address, b"host:port", "'host:port'"),
        (znodes.read_state_change, b"{}", "a state change request"),
        (znodes.read_state_change, b"\xff", "a state change request"),
    ],
)
def test_unusable_content_is_named_with_its_path(
    read: Callable[[str, bytes | None], object], data: bytes | None, why: str
) -> None:
    with pytest.raises(ZnodeError, match=f"^{PATH} cannot be read as") as raised:
        read(PATH, data)
    assert why in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"x", b"2147483647", b"-1"])
def test_unusable_epoch_is_named_with_its_path(data: bytes) -> None:
    with pytest.raises(ZnodeError, match=r"^/brokers/epoch cannot be read as an epoch"):
        znodes.read_epoch(data)


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/t/0/ISR",
        "/brokers/topics/t/leader",
        "/brokers/topics/t/x/leader",
        "/brokers/ids/t/0/leader",
        "/brokers/topics/t/0/leader/x",
    ],
)
def test_path_of_another_znode_is_no_leader(path: str) -> None:
    assert znodes.partition_of_leader(path) is None
    assert znodes.partition_of_leader("/brokers/topics/t/10/leader") == ("t", 10)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/brokers/topics/t/0", (("t", 0), "partition")),
        ("/brokers/topics/t/0/replicas", (("t", 0), "replicas")),
        ("/brokers/topics/t/0/leader", (("t", 0), "leader")),
        ("/brokers/topics/t/0/ISR", (("t", 0), "ISR")),
        ("/brokers/partitions_reassigned/t/0", (("t", 0), "reassigned")),
        ("/brokers/topics/t", None),
        ("/brokers/topics/t/00", None),
        ("/brokers/topics/t/2147483648", None),
        ("/brokers/topics/t/0/other", None),
    ],
)
def test_path_of_a_partition_names_the_partition_and_the_kind(path: str, expected: object) -> None:
    assert znodes.partition_znode(path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/brokers/ids/3", 3),
        ("/brokers/state/3", 3),
        ("/brokers/state/3/request-0000000001", 3),
        ("/brokers/ids/x", None),
        ("/brokers/epoch", None),
    ],
)
def test_path_of_a_broker_names_the_broker(path: str, expected: int | None) -> None:
    assert znodes.broker_of(path) == expected
