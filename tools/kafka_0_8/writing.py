"""Writes the histories of simulated brokers as logs."""

from pathlib import Path

from controller.fingerprint import broker_fingerprint
from controller.kafka_0_8.configuration import BrokerConfiguration
from replay.logs.histories import write_history
from replay.world.kafka_0_8.broker_process import Step
from replay.world.kafka_0_8.cluster import Cluster08


def write_logs(cluster: Cluster08, folder: Path) -> list[Path]:
    """One log for each run of each broker; returns their folders."""
    written = []
    for broker, process in cluster.brokers.items():
        for number, history in enumerate(process.runs, 1):
            path = folder / f"broker-{broker}-run-{number}"
            write_log(path, process.configuration, history)
            written.append(path)
    return written


def write_log(path: Path, configuration: BrokerConfiguration, history: list[Step]) -> None:
    """The log of one run."""
    fingerprint = broker_fingerprint()
    write_history(
        path, history, configuration, core_fingerprint=fingerprint, cluster_id="simulated"
    )
