"""The operations of recorded incidents. Each operation draws its details at random and notes its
changes.

An operation receives the cluster and a separate Random. It does nothing if the cluster has no
object for it. The journal notes errors that belong to the incident.
"""

from collections.abc import Awaitable, Callable
from random import Random

from tools.recordings.recorded_cluster import RecordedCluster

Operation = Callable[[RecordedCluster, Random], Awaitable[None]]

FEW_SECONDS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Delays between two things that happen at almost the same time."""


async def perform(operation: Operation, cluster: RecordedCluster, rng: Random) -> None:
    """Perform an operation and note its error: the incident may have removed an object that the
    operation needs.
    """
    try:
        await operation(cluster, rng)
    except Exception as error:
        cluster.journal.failed(operation.__name__, error)
