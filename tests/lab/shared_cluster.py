"""A cluster for synchronous code, such as a fixture that many tests share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from tools.lab.lab import LATEST_KAFKA, Lab


@contextmanager
def shared_cluster(
    folder: Path, brokers: int, *, kafka: str = LATEST_KAFKA, **options: Any
) -> Iterator[Lab]:
    """A lab with ZooKeeper and brokers; `options` are those of `Lab.start_brokers`."""
    lab = Lab(folder, kafka=kafka)

    async def start() -> None:
        await lab.start_zookeeper()
        await lab.start_brokers(brokers, **options)

    try:
        anyio.run(start)
        yield lab
    finally:
        lab.close()
