"""Admin commands that ZooKeeper refuses: the message has the znode and the reason."""

from typing import Any

import pytest

from controller.core.commands import ReadStats, WriteAtomically
from controller.core.operations import (
    BAD_VERSION,
    NO_AUTH,
    NO_NODE,
    NOT_EMPTY,
    OK,
    RUNTIME_INCONSISTENCY,
)
from controller.kafka_0_8.admin import AdminError
from controller.kafka_0_8_broker import administration
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ZooKeeperClient

TOPIC = "/brokers/topics/t"
EPOCH = "/brokers/epoch"


class RefusingZooKeeper(ZooKeeperClient):
    """ZooKeeper with broker 1, and the topics of `topics` with partition 0. `codes`: the error of
    each path that is looked up or written."""

    def __init__(self, codes: dict[str, int], *topics: str) -> None:
        self.codes = codes
        self._children = {"/brokers/state": ["1"], "/brokers/topics": list(topics)}
        self._children |= {f"/brokers/topics/{one}": ["0"] for one in topics}

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return self._children.get(path, [])

    async def carry_out(self, command: Any, result: Any) -> None:
        if isinstance(command, ReadStats):
            result.errors[:] = [self.codes.get(one, NO_NODE) for one in command.paths]
        elif isinstance(command, WriteAtomically):
            codes = [self.codes.get(one.path, OK) for one in command.operations]
            failed = next((place for place, code in enumerate(codes) if code), len(codes))
            after = [RUNTIME_INCONSISTENCY] * (len(codes) - failed - 1)
            result.errors[:] = codes[: failed + 1] + after


async def test_only_brokers_without_a_queue_are_added() -> None:
    assert await administration.add_brokers(
        RefusingZooKeeper({"/brokers/state/1": OK}), [1, 2]
    ) == [2]


async def test_denied_topic_does_not_count_as_missing() -> None:
    with pytest.raises(ZooKeeperUnavailable, match=f"{TOPIC} cannot be read .NoAuth."):
        await administration.create_topic(RefusingZooKeeper({TOPIC: NO_AUTH}), "t", {0: (1,)})


@pytest.mark.parametrize(
    ("path", "code", "why"),
    [
        (f"{TOPIC}/0", NO_AUTH, f"the ACL of {TOPIC} does not allow to create {TOPIC}/0 (NoAuth)"),
        (f"{TOPIC}/0", NO_NODE, f"(to create {TOPIC}/0: ZooKeeper code -101); try again"),
        (f"{TOPIC}/0", -8, f"ZooKeeper refused to create {TOPIC}/0 (code -8)"),
    ],
)
async def test_refused_write_is_reported_with_its_path_and_the_reason(
    path: str, code: int, why: str
) -> None:
    with pytest.raises(AdminError) as raised:
        await administration.create_topic(RefusingZooKeeper({path: code}), "t", {0: (1,)})
    assert str(raised.value).startswith("nothing was written: ")
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("path", "code", "why"),
    [
        (EPOCH, BAD_VERSION, f"(to change {EPOCH}: ZooKeeper code -103); try again"),
        (EPOCH, NO_AUTH, f"the ACL of {EPOCH} does not allow to change {EPOCH} (NoAuth)"),
        (f"{TOPIC}/0", NO_AUTH, f"the ACL of {TOPIC} does not allow to delete {TOPIC}/0 (NoAuth)"),
        (TOPIC, NOT_EMPTY, f"there are znodes below {TOPIC} that the design does not have"),
    ],
)
async def test_refused_operation_is_found_in_a_deletion(path: str, code: int, why: str) -> None:
    with pytest.raises(AdminError) as raised:
        await administration.delete_topic(RefusingZooKeeper({path: code}, "t"), "t")
    assert why in str(raised.value)
