"""Writes the histories of simulated brokers as logs."""

from pathlib import Path

import msgspec

from controller.event_log.records import command_record, event_record
from controller.fingerprint import broker_fingerprint, code_version
from controller.kafka_0_8.configuration import BrokerConfiguration
from eventstore.records import Header
from eventstore.writer import LogWriter
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
    header = Header(
        kind="recorded",
        core_fingerprint=broker_fingerprint(),
        code_version=code_version(),
        configuration=msgspec.to_builtins(configuration),
        cluster_id="simulated",
        created_ns=history[0][0].wall_ns,
    )
    writer = LogWriter.create(path, header)
    for recorded, issued in history:
        writer.append([event_record(recorded)], [command_record(one) for one in issued])
    writer.close()
