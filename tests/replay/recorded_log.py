"""Logs of simulated incidents, as the daemon writes them."""

from pathlib import Path

import msgspec
from msgspec import structs

from controller.core.configuration import Configuration
from controller.core.events import ZnodesRead, ZnodesWritten
from controller.event_log.records import command_record, event_record
from controller.fingerprint import code_version, core_fingerprint
from eventstore.reader import LogReader
from eventstore.records import Header
from eventstore.writer import LogWriter
from replay.logs.decode import UPCASTERS
from replay.verify.verification import Verification, verify_decisions
from replay.world.simulation import Simulation

CONFIGURATION = Configuration(broker_id=1000, inter_broker_protocol_version="2.8", take_over=True)


def header(
    fingerprint: str | None = None,
    configuration: Configuration = CONFIGURATION,
    cluster_id: str = "simulated",
) -> Header:
    """The header of a log."""
    return Header(
        kind="recorded",
        core_fingerprint=fingerprint or core_fingerprint(),
        code_version=code_version(),
        configuration=msgspec.to_builtins(configuration),
        cluster_id=cluster_id,
        created_ns=0,
    )


def incident() -> Simulation:
    """An incident: brokers start, a topic is created, a broker restarts, the session expires."""
    simulation = Simulation(CONFIGURATION)
    for broker in (1, 2, 3):
        simulation.start_broker(broker)
    simulation.connect()
    simulation.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2,3],"1":[2,3,1]}}')
    simulation.stop_broker(1)
    simulation.start_broker(1)
    simulation.expire()
    simulation.put("/brokers/topics/u", b'{"version":1,"partitions":{"0":[3]}}')
    simulation.stop_broker(3)
    return simulation


def write_log(
    folder: Path,
    simulation: Simulation,
    *,
    fingerprint: str | None = None,
    close: bool = True,
    commands_until: int | None = None,
    cluster_id: str = "simulated",
    configuration: Configuration | None = None,
) -> Path:
    """Stores the history. Commands after event `commands_until` are not stored, as in a crash.
    `configuration`: what the header has in place of the simulation's."""
    stored = configuration or simulation.fold.controller.configuration
    writer = LogWriter.create(folder, header(fingerprint, stored, cluster_id))
    for recorded, issued in simulation.history:
        kept = issued if commands_until is None or recorded.seq <= commands_until else []
        writer.append([event_record(recorded)], [command_record(one) for one in kept])
    if close:
        writer.close()
    else:
        writer.abandon()
    return folder


def verified(log: Path) -> Verification:
    """The result of a replay."""
    with LogReader.open(log, UPCASTERS) as reader:
        return verify_decisions(reader)


def with_an_impossible_outcome(cluster: Simulation) -> Simulation:
    """The cluster with a history that no core can fold: the first read of znodes, which event 2
    ends, has the outcome of a write."""
    place = next(
        place
        for place, (recorded, _) in enumerate(cluster.history)
        if isinstance(recorded.event, ZnodesRead)
    )
    recorded, issued = cluster.history[place]
    assert isinstance(recorded.event, ZnodesRead)
    event = ZnodesWritten(recorded.event.command, 0, [0], [0])
    cluster.history[place] = (structs.replace(recorded, event=event), issued)
    return cluster
