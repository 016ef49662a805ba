"""Simulated histories of a controller of any length, and logs of them."""

from pathlib import Path
from random import Random
from typing import Final, Self

import msgspec
from msgspec import Struct

from controller.core.configuration import Configuration
from controller.core.znodes import topic_path
from controller.event_log.records import command_record, event_record
from controller.fingerprint import code_version, core_fingerprint
from eventstore.records import CommandRecord, EventRecord, Header
from eventstore.writer import LogWriter
from replay.world.simulation import Simulation

CONFIGURATION: Final = Configuration(
    broker_id=1000, inter_broker_protocol_version="2.8", take_over=True
)
_BROKERS: Final = (1, 2, 3)
_TOPICS_MAX: Final = 3
_PARTITIONS: Final = 4
_APPENDED: Final = 500
_NS_IN_MS: Final = 1_000_000


class GeneratedHistory(Struct, frozen=True):
    """Events and commands as stored in a log, and the time of the first event in ms."""

    begun_ms: int
    events: list[EventRecord]
    commands: list[CommandRecord]


def simulated_history(events: int, begun_ms: int, seed: int) -> GeneratedHistory:
    """A history of `events` events: brokers come and go, topics are created and sessions expire,
    with pauses in between."""
    random = Random(seed)
    simulation = Simulation(CONFIGURATION)
    simulation.now_ms = begun_ms
    for broker in _BROKERS:
        simulation.start_broker(broker)
    simulation.connect()
    living, topics = set(_BROKERS), 0
    while len(simulation.history) < events:
        simulation.now_ms += random.randrange(100, 60_000)
        broker = random.choice(_BROKERS)
        match random.randrange(10):
            case 0 if topics < _TOPICS_MAX:
                topics += 1
                simulation.put(topic_path(f"topic-{topics}"), _assignment(random))
            case 1:
                simulation.expire()
            case _ if broker in living and len(living) > 1:
                living.remove(broker)
                simulation.stop_broker(broker)
            case _ if broker not in living:
                living.add(broker)
                simulation.start_broker(broker)
    kept = simulation.history[:events]
    return GeneratedHistory(
        begun_ms,
        [event_record(recorded) for recorded, _ in kept],
        [command_record(one) for _, issued in kept for one in issued],
    )


class GrowingLog:
    """A context manager that stores a history as the log of a cluster and closes the log at the
    end. `number` distinguishes the logs of the same history."""

    def __init__(
        self,
        folder: Path,
        history: GeneratedHistory,
        cluster: str,
        number: int,
        segment_bytes: int = 1 << 30,
    ) -> None:
        header = Header(
            kind="recorded",
            core_fingerprint=core_fingerprint(),
            code_version=code_version(),
            configuration=msgspec.to_builtins(CONFIGURATION),
            cluster_id=cluster,
            created_ns=history.begun_ms * _NS_IN_MS + number,
        )
        self._writer = LogWriter.create(folder, header, segment_bytes=segment_bytes)
        self._history = history
        self._events = self._commands = 0

    def until(self, last: int) -> None:
        """Store the events up to number `last`, and their commands."""
        events, commands = self._history.events[:last], self._history.commands
        while self._events < len(events):
            some = events[self._events : self._events + _APPENDED]
            begin = self._commands
            while self._commands < len(commands) and commands[self._commands].cause <= some[-1].seq:
                self._commands += 1
            self._writer.append(some, commands[begin : self._commands])
            self._writer.roll_if_due()
            self._events += len(some)

    def abandon(self) -> None:
        """Leave the log open, as one that is still being written."""
        self._writer.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def write_log(
    folder: Path,
    history: GeneratedHistory,
    cluster: str,
    number: int,
    *,
    until: int | None = None,
    is_closed: bool = True,
    segment_bytes: int = 1 << 30,
) -> Path:
    """Store a history as the log of a cluster; `until` is the last event of a log that is still
    being written."""
    log = GrowingLog(folder, history, cluster, number, segment_bytes)
    log.until(len(history.events) if until is None else until)
    if is_closed:
        log.__exit__()
    else:
        log.abandon()
    return folder


def _assignment(random: Random) -> bytes:
    count = len(_BROKERS)
    replicas = {str(number): random.sample(_BROKERS, count) for number in range(_PARTITIONS)}
    return msgspec.json.encode({"version": 1, "partitions": replicas})
