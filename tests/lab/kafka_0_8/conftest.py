"""Three brokers of the 0.8 design and topic orders, which the tests of a module share."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from tools.demo.kafka_0_8 import scenes
from tools.demo.kafka_0_8.__main__ import COUNT
from tools.demo.kafka_0_8.brokers import CONFIG, Brokers
from tools.demo.stage import Stage
from tools.lab import Lab


@pytest.fixture(scope="module")
def lab_0_8(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab in which the brokers run."""
    lab = Lab(tmp_path_factory.mktemp("cluster"))

    async def start() -> None:
        await lab.start_zookeeper()
        await lab.start_brokers_0_8(COUNT, config=CONFIG)
        async with Stage(lab, lab.folder) as stage, Brokers.connected(stage) as brokers:
            await scenes.create_orders(brokers)

    try:
        anyio.run(start)
        yield lab
    finally:
        lab.close()


@pytest.fixture
async def brokers(lab_0_8: Lab, tmp_path: Path) -> AsyncIterator[Brokers]:
    """The brokers, all of which run."""
    async with Stage(lab_0_8, tmp_path) as stage, Brokers.connected(stage) as brokers:
        for broker in lab_0_8.brokers_0_8[:COUNT]:
            if not broker.running:
                await broker.start()
        yield brokers
