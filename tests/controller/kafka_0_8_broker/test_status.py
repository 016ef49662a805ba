"""The output of `status`, and the problems that it names."""

import pytest

from controller.core.operations import NO_AUTH, NO_NODE, OK
from controller.core.outcomes import ZnodeColumns
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.znodes import StateChange
from controller.kafka_0_8_broker.problems import ClusterZnodes, problems_of
from controller.kafka_0_8_broker.status import PartitionStatus, read_tree, status_of

START = znodes.write_state_change(StateChange("start-replica", "t", 0))
USABLE = {
    "/brokers": b"",
    "/brokers/epoch": b"7",
    "/brokers/ids": b"",
    "/brokers/ids/1": b"host1:9092",
    "/brokers/partitions_reassigned": b"",
    "/brokers/partitions_reassigned/t": b"",
    "/brokers/partitions_reassigned/t/0": b"2",
    "/brokers/state": b"",
    "/brokers/state/1": b"",
    "/brokers/state/2": b"",
    "/brokers/state/2/request-0000000000": START,
    "/brokers/topics": b"",
    "/brokers/topics/t": b"",
    "/brokers/topics/t/0": b"",
    "/brokers/topics/t/0/ISR": b"1;7",
    "/brokers/topics/t/0/leader": b"1;7",
    "/brokers/topics/t/0/replicas": b"1,2",
    "/brokers/topics/t/1": b"",
    "/brokers/topics/t/1/replicas": b"2",
}


def test_usable_znodes_have_no_problems() -> None:
    found = status_of(ClusterZnodes(USABLE))
    assert found.problems == {}
    assert found.brokers == {"1": "host1:9092"}
    assert found.queues == {"1": 0, "2": 1}
    assert found.partitions == [
        PartitionStatus("t", 0, "1,2", "1;7", "1;7", "2"),
        PartitionStatus("t", 1, "2", "", "", ""),
    ]


def test_empty_cluster_has_no_problems() -> None:
    assert problems_of(ClusterZnodes({})) == {}


@pytest.mark.parametrize(
    ("path", "content", "why"),
    [
        ("/brokers/note", b"", "is not a znode of the design; delete it"),
        ("/brokers/epoch", b"", "has no epoch; the next leader takes it from the partitions"),
        ("/brokers/epoch", b"x", "'x' is no number; the next leader takes it from the partitions"),
        ("/brokers/epoch/note", b"", "is not a znode of the design; delete it"),
        ("/brokers/ids/xyz", b"h:1", "is not named by a broker id; delete it"),
        ("/brokers/ids/01", b"h:1", "is not named by a broker id; delete it"),
        ("/brokers/ids/1", b"", "host:port of a broker: ''; delete it, and restart broker 1"),
        ("/brokers/state/abc", b"", "is not named by a broker id; delete it"),
        ("/brokers/state/1/hello", b"", "is not named request-NNNNNNNNNN, so that it is ignored"),
        ("/brokers/state/1/request-0000000001", b"", "broker 1 deletes it when it runs"),
        ("/brokers/topics/empty", b"", "has no partitions; delete the topic"),
        ("/brokers/topics/t/first", b"", "is not named by a partition number; delete it"),
        ("/brokers/topics/t/2", b"", "has no replicas; create its replicas znode, or delete it"),
        ("/brokers/topics/t/0/note", b"", "is not a znode of the design; delete it"),
        ("/brokers/topics/t/0/ISR/note", b"", "is not a znode of the design; delete it"),
        ("/brokers/topics/t/0/ISR", b"", "such as 1,2;7: the list is empty; correct it"),
        ("/brokers/topics/t/0/ISR", b"3,4;7", "has none of the assigned replicas [1, 2]; correct"),
        (
            "/brokers/topics/t/0/ISR",
            b"1,4;7",
            "names [4], not among the assigned replicas [1, 2]; correct it, or /brokers/topics/t/0",
        ),
        ("/brokers/topics/t/0/leader", b"9;7", "if there is no such broker, delete the znode"),
        ("/brokers/topics/t/0/leader", b"\xff", "such as 1;7: it has other characters; correct it"),
        ("/brokers/topics/t/0/replicas", b"1,1", "twice; correct it, or delete topic t"),
        ("/brokers/topics/t/0/replicas", b"1,2,9", "names broker 9, which has no queue; add the"),
        ("/brokers/partitions_reassigned/u", b"", "is of a topic that does not exist; delete it"),
        ("/brokers/partitions_reassigned/t/x", b"2", "is not named by a partition number"),
        ("/brokers/partitions_reassigned/t/9", b"2", "is of a partition that does not exist"),
        ("/brokers/partitions_reassigned/t/0", b"", "the list is empty; correct or delete it"),
        ("/brokers/partitions_reassigned/t/0", b"9", "names broker 9, which has no queue"),
    ],
)
def test_znode_that_cannot_be_used_is_named_with_the_reason(
    path: str, content: bytes, why: str
) -> None:
    problems = problems_of(ClusterZnodes(USABLE | {path: content}))
    assert list(problems) == [path]
    assert why in problems[path].text


def test_registered_leader_without_a_queue_is_not_to_be_deleted() -> None:
    found = {path: data for path, data in USABLE.items() if path != "/brokers/state/1"}
    problems = problems_of(ClusterZnodes(found))
    assert list(problems) == ["/brokers/topics/t/0/replicas"]
    assert (
        "names broker 1, which has no queue; add the broker"
        in problems["/brokers/topics/t/0/replicas"].text
    )


@pytest.mark.parametrize(
    ("missing", "path", "why"),
    [
        (
            "/brokers/ids/1",
            "/brokers/topics/t/0/leader",
            "names broker 1, which is not registered (/brokers/ids/1); if it stays so, restart "
            "broker 1",
        ),
        (
            "/brokers/topics/t/0/ISR",
            "/brokers/topics/t/0/ISR",
            "does not exist although the partition has a leader; create it with the replicas that "
            "have all committed records, such as 1;7",
        ),
    ],
)
def test_leader_without_registration_or_isr_is_named(missing: str, path: str, why: str) -> None:
    found = {one: data for one, data in USABLE.items() if one != missing}
    assert {one: problem.text for one, problem in problems_of(ClusterZnodes(found)).items()} == {
        path: why
    }


def test_problem_does_not_repeat_its_path() -> None:
    path = "/brokers/topics/t/0/ISR"
    assert problems_of(ClusterZnodes(USABLE | {path: b""}))[path].text.startswith(
        "cannot be read as broker ids"
    )


class DenyingClient:
    """A client of a cluster with these znodes, some of which may not be read."""

    def __init__(self, contents: dict[str, bytes], denied: list[str]) -> None:
        self._tree = ClusterZnodes(contents)
        self._denied = denied

    async def znodes(self, paths: tuple[str, ...], *, may_be_denied: bool) -> ZnodeColumns:
        assert may_be_denied
        found = ZnodeColumns(len(paths))
        for place, path in enumerate(paths):
            found.data[place] = self._tree.contents.get(path)
            found.errors[place] = OK if path in self._tree.contents else NO_NODE
            if path in self._denied:
                found.errors[place], found.data[place] = NO_AUTH, None
        return found

    async def children(self, path: str) -> list[str]:
        assert path not in self._denied
        return self._tree.children(path)


@pytest.mark.parametrize("path", sorted({*USABLE, "/brokers"}))
async def test_denied_znode_is_named_and_all_others_are_read(path: str) -> None:
    """The znodes below a denied znode are not reported as missing."""
    found = await read_tree(DenyingClient(USABLE, [path]))  # type: ignore[arg-type]
    below = [one for one in USABLE if one == path or one.startswith(f"{path}/")]
    assert dict(found.contents) == {one: USABLE[one] for one in USABLE if one not in below}
    status = status_of(found)
    assert status.denied == status.unreadable == [path]
    text = "cannot be read (NoAuth): its ACL does not allow it; correct the ACL"
    assert status.problems == {path: text}


async def test_several_denied_znodes_are_named() -> None:
    denied = ["/brokers/state/2", "/brokers/topics/t/0/ISR", "/brokers/ids/1"]
    status = status_of(await read_tree(DenyingClient(USABLE, denied)))  # type: ignore[arg-type]
    assert sorted(status.denied) == sorted(status.problems) == sorted(denied)
    assert (status.brokers, status.queues) == ({"1": ""}, {"1": 0, "2": None})
