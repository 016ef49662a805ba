"""A simulated cluster."""

import pytest

from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.reassigning import cluster_of


@pytest.fixture
def cluster() -> Cluster:
    """t-0 on brokers 1, 2 and 3, led by 1."""
    return cluster_of(3, 1, 2, 3)
