"""A run of the 0.8 design on disk: the file that reproduces it, and the logs of its brokers.

A folder has `run.json` and one log for each run of each broker, such as `broker-1-run-1`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field

from controller.fingerprint import broker_fingerprint, code_version
from controller.kafka_0_8.configuration import KAFKA_0_8, BrokerConfiguration
from replay.explore.invariants.invariant import Violation
from replay.explore.kafka_0_8.run import Run08
from replay.explore.kafka_0_8.search import BrokenRun
from replay.explore.saved import FORMAT, cluster_id_of, read_document, write_document
from replay.logs.histories import write_history
from replay.world.kafka_0_8.broker_process import BrokerProcess, Step
from replay.world.kafka_0_8.networked.inputs import Input08
from replay.world.scenario import Scenario

SIMULATED: Final = "simulated"
"""The cluster id in logs of runs without a digest."""


class SavedRun08(Struct, frozen=True, kw_only=True):
    """run.json: what the run is a function of, and the violation or flaw that it results in.

    `digest` is that of all events, commands and znodes. It is the same with any version of Python,
    but not with another version of the design's core. `reason` says why the run is kept.
    """

    format: int = FORMAT
    design: Literal["0.8"] = KAFKA_0_8
    scenario: Scenario
    inputs: tuple[Input08, ...]
    violation: Violation
    digest: str
    core: str = field(default_factory=broker_fingerprint)
    version: str = field(default_factory=code_version)
    seed: int
    run: int
    reason: str = ""


def save(broken: BrokenRun, folder: Path, *, seed: int) -> list[Path]:
    """Write a run into a new folder; return its logs. Raises ReplayError, LogError."""
    played = Run08(broken.scenario, broken.inputs)
    document = SavedRun08(
        scenario=broken.scenario,
        inputs=broken.inputs,
        violation=broken.violation,
        digest=played.digest,
        seed=seed,
        run=broken.run,
    )
    write_document(document, folder)
    brokers = played.cluster.brokers.values() if played.cluster is not None else ()
    stores = [one.store for one in brokers]
    return write_logs(stores, folder, cluster_id_of(played.digest))


def read_run_08(path: Path) -> SavedRun08:
    """Read a run from its file or folder. Raises ReplayError."""
    return read_document(path, SavedRun08)


def write_logs(
    brokers: Iterable[BrokerProcess], folder: Path, cluster_id: str = SIMULATED
) -> list[Path]:
    """Write one log for each run of each broker. Returns their folders. Raises LogError."""
    written = []
    for process in brokers:
        for number, history in enumerate(process.runs, 1):
            if history:
                path = folder / f"broker-{process.id}-run-{number}"
                write_log(path, process.configuration, history, cluster_id)
                written.append(path)
    return written


def write_log(
    path: Path,
    configuration: BrokerConfiguration,
    history: list[Step],
    cluster_id: str = SIMULATED,
) -> None:
    """Write the log of one run. Raises LogError."""
    fingerprint = broker_fingerprint()
    write_history(path, history, configuration, core_fingerprint=fingerprint, cluster_id=cluster_id)
