"""Producers and consumers while the znodes of a leader are unreadable."""

from types import SimpleNamespace
from typing import Any

import pytest

from controller.kafka_0_8_broker.client import BrokerClient
from controller.kafka_0_8_broker.errors import ClientError

LEADER = "/brokers/topics/t/0/leader"


@pytest.mark.parametrize(
    "wrong", [{LEADER: b"garbage"}, {LEADER: b"1;7", "/brokers/ids/1": b"garbage"}]
)
async def test_client_looks_for_a_leader_with_unreadable_znodes_until_its_time_is_over(
    wrong: dict[str, bytes],
) -> None:
    contents = {"/brokers/topics/t/0/replicas": b"1"} | wrong
    reads = []

    async def read(paths: tuple[str, ...]) -> list[Any]:
        reads.append(paths)
        return [SimpleNamespace(data=contents[one]) if one in contents else None for one in paths]

    zookeeper: Any = SimpleNamespace(read=read)
    async with BrokerClient(zookeeper, 0.5) as client:
        with pytest.raises(ClientError, match=r"t-0: no leader within 0\.5 s: .*'garbage'"):
            await client.produce(("t", 0), [b"a"], -1)
    assert len([one for one in reads if LEADER in one]) > 2
