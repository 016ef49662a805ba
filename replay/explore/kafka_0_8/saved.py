"""A run of the 0.8 design on disk: the file that reproduces it, and the logs of its brokers.

A folder has `run.json` and one log for each run of each broker, such as `broker-1-run-1`.
"""

import hashlib
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from controller.fingerprint import broker_fingerprint, code_version
from controller.kafka_0_8.configuration import KAFKA_0_8, BrokerConfiguration
from replay.explore.kafka_0_8.acts import Act
from replay.explore.kafka_0_8.search import BrokenRun, play
from replay.explore.saved import FORMAT, read_document, write_document
from replay.logs.histories import write_history
from replay.world.kafka_0_8.broker_process import Step
from replay.world.kafka_0_8.cluster import Cluster08


class SavedBrokerRun(Struct, frozen=True, kw_only=True):
    """run.json: the acts, and the invariant that they break. `digest` is that of all histories. It
    is the same with any version of Python, but not with another version of the design's core."""

    format: int = FORMAT
    design: Literal["0.8"] = KAFKA_0_8
    acts: list[Act]
    invariant: str
    text: str
    digest: str
    core: str = field(default_factory=broker_fingerprint)
    version: str = field(default_factory=code_version)
    seed: int
    run: int


def save(broken: BrokenRun, folder: Path, *, seed: int) -> list[Path]:
    """Write a run into a new folder; return its logs. Raises ReplayError, LogError."""
    cluster, _ = play(broken.acts)
    document = SavedBrokerRun(
        acts=broken.acts,
        invariant=broken.invariant,
        text=broken.text,
        digest=digest_of(cluster),
        seed=seed,
        run=broken.run,
    )
    write_document(document, folder)
    return write_logs(cluster, folder)


def read_broker_run(path: Path) -> SavedBrokerRun:
    """Read a run from its file or folder. Raises ReplayError."""
    return read_document(path, SavedBrokerRun)


def digest_of(cluster: Cluster08) -> str:
    """The digest of the histories of all brokers."""
    hashed = hashlib.sha256()
    for broker, process in cluster.brokers.items():
        hashed.update(msgspec.msgpack.encode((broker, process.runs)))
    return hashed.hexdigest()


def write_logs(cluster: Cluster08, folder: Path) -> list[Path]:
    """Write one log for each run of each broker. Returns their folders. Raises LogError."""
    written = []
    for broker, process in cluster.brokers.items():
        for number, history in enumerate(process.runs, 1):
            if history:
                path = folder / f"broker-{broker}-run-{number}"
                write_log(path, process.configuration, history)
                written.append(path)
    return written


def write_log(path: Path, configuration: BrokerConfiguration, history: list[Step]) -> None:
    """Write the log of one run. Raises LogError."""
    fingerprint = broker_fingerprint()
    write_history(
        path, history, configuration, core_fingerprint=fingerprint, cluster_id="simulated"
    )
