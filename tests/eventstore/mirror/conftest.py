"""A broker with topics that logs are published to."""

import gc
from collections.abc import Iterator
from itertools import count

import pytest

from eventstore.mirror.topic import MirrorTopic
from tests.lab.shared_cluster import shared_cluster

_numbers = count()


@pytest.fixture(autouse=True)
def leftovers_are_the_tests_own() -> Iterator[None]:
    """Clients that a test has cancelled are garbage-collected at its end, and not during another
    test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a stock broker."""
    with shared_cluster(tmp_path_factory.mktemp("mirrored"), 1) as lab:
        yield lab.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> MirrorTopic:
    """A topic that does not exist yet."""
    return MirrorTopic(f"refold-log-{next(_numbers)}", {"bootstrap_servers": bootstrap})
