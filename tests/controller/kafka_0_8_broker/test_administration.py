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
    Create,
    SetData,
    WriteOperation,
)
from controller.kafka_0_8.admin import AdminError
from controller.kafka_0_8_broker import administration
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ZooKeeperClient

TOPIC = "/brokers/topics/t"


class Refusing(ZooKeeperClient):
    """ZooKeeper with broker 1. `codes`: the error of each path that is looked up or written."""

    def __init__(self, codes: dict[str, int]) -> None:
        self.codes = codes

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return ["1"] if path == "/brokers/state" else []

    async def _ask(self, command: Any, result: Any) -> None:
        if isinstance(command, ReadStats):
            result.errors[:] = [self.codes.get(one, NO_NODE) for one in command.paths]
        elif isinstance(command, WriteAtomically):
            codes = [self.codes.get(one.path, OK) for one in command.operations]
            failed = next((place for place, code in enumerate(codes) if code), len(codes))
            after = [RUNTIME_INCONSISTENCY] * (len(codes) - failed - 1)
            result.errors[:] = codes[: failed + 1] + after


async def test_only_brokers_without_a_queue_are_added() -> None:
    assert await administration.add_brokers(Refusing({"/brokers/state/1": OK}), [1, 2]) == [2]


async def test_denied_topic_does_not_count_as_missing() -> None:
    with pytest.raises(ZooKeeperUnavailable, match=f"{TOPIC} cannot be read .NoAuth."):
        await administration.create_topic(Refusing({TOPIC: NO_AUTH}), "t", {0: (1,)})


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
        await administration.create_topic(Refusing({path: code}), "t", {0: (1,)})
    assert str(raised.value).startswith("nothing was written: ")
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (NO_AUTH, f"the ACL of {TOPIC} does not allow to change {TOPIC} (NoAuth)"),
        (BAD_VERSION, f"(to change {TOPIC}: ZooKeeper code -103); try again"),
        (NOT_EMPTY, f"there are znodes below {TOPIC} that the design does not have"),
    ],
)
async def test_refused_operation_is_found_in_a_deletion(
    code: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deletion(_: Any, topic: str) -> list[WriteOperation]:
        return [Create("/a"), SetData(TOPIC, b"", 0), Create("/b")]

    monkeypatch.setattr(administration, "_deletion", deletion)
    with pytest.raises(AdminError) as raised:
        await administration.delete_topic(Refusing({TOPIC: code}), "t")
    assert why in str(raised.value)
