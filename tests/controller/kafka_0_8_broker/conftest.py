"""Files of brokers that are closed at the end of a test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from controller.kafka_0_8_broker.disk import Disk
from controller.kafka_0_8_broker.segment import Segment


@pytest.fixture
def open_segment() -> Iterator[Callable[[Path], Segment]]:
    """Opens a file of records."""
    with ExitStack() as files:
        yield lambda path: files.enter_context(closing(Segment(path)))


@pytest.fixture
def open_disk() -> Iterator[Callable[[Path], Disk]]:
    """Opens the disk of a broker."""
    with ExitStack() as disks:
        yield lambda folder: disks.enter_context(closing(Disk(folder)))
