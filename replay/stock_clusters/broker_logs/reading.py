"""Merges all brokers' logs of a source by time."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from heapq import merge
from itertools import groupby
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Protocol

from replay.stock_clusters.broker_logs.controller_log import controller_logged
from replay.stock_clusters.broker_logs.folders import UNKNOWN, brokers_of, in_order
from replay.stock_clusters.broker_logs.lines import (
    Line,
    LineCounts,
    UnknownLineError,
    lines_of,
)
from replay.stock_clusters.broker_logs.request_log import (
    TEXT_FORM,
    TextFormError,
    UnfitError,
    request_served,
)
from replay.stock_clusters.broker_logs.state_change_log import state_change_logged
from replay.stock_clusters.imported_log.events import BrokerLogged, LoggedEvent
from replay.stock_clusters.zookeeper_log.data_folder import BrokerLog


class AllBrokerLogs(Protocol):
    """The brokers' logs of one or of several sources; see BrokerLogs."""

    @property
    def notes(self) -> list[str]: ...

    @property
    def damaged(self) -> dict[str, int]: ...

    def events(self, kinds: Sequence[str] | None = None) -> Iterator[LoggedEvent]: ...


class BrokerLogs:
    """The brokers' logs of a source. Each call of `events` reads all files line by line.

    After a reading, `notes` are about lines and files that cannot be used, and `damaged` has the
    number of such lines by file. If the rest of a file cannot be read, that counts as one line.
    `not_understood` is the number of all lines that cannot be parsed.
    """

    def __init__(self, logs: Sequence[BrokerLog], zone: tzinfo) -> None:
        """Find each file's broker and first time."""
        self.notes: list[str] = []
        self.damaged: dict[str, int] = {}
        self.not_understood = 0
        self._zone = zone
        self._brokers = brokers_of(logs, zone)
        self._shared = [*_shared(self._brokers)]
        self._groups = [
            in_order(list(files), zone)
            for _, files in groupby(sorted(logs, key=_group), key=_group)
        ]

    def events(self, kinds: Sequence[str] | None = None) -> Iterator[LoggedEvent]:
        """The events of all files, or of those of some kinds."""
        self.notes = [*self._shared]
        self.damaged = {}
        self.not_understood = 0
        groups = [one for one in self._groups if kinds is None or one[0].kind in kinds]
        yield from merge(*map(self._events_of, groups), key=attrgetter("time_ms"))

    def _events_of(self, files: Sequence[BrokerLog]) -> Iterator[LoggedEvent]:
        for log in files:
            broker = self._brokers[PurePosixPath(log.name).parent]
            whose = "unknown broker" if broker == UNKNOWN else f"broker {broker}"
            channel = f"{whose} {log.kind}"
            counts = LineCounts()
            for line in lines_of(log.path, self._zone, counts):
                event = self._event(log.kind, line, broker, counts)
                if event is not None:
                    yield LoggedEvent(line.time_ms, channel, event)
            self.notes += _left_out(log.name, counts)
            self.not_understood += counts.not_understood
            if damaged := counts.unfit.count + bool(counts.fault):
                self.damaged[log.name] = damaged

    @staticmethod
    def _event(kind: str, line: Line, broker: int, counts: LineCounts) -> BrokerLogged | None:
        try:
            if kind == "controller.log":
                return controller_logged(line)
            if kind == "state-change.log":
                return state_change_logged(line)
            request = request_served(line, broker)
            counts.requests += 1
            return request
        except TextFormError:
            counts.of_text_form.add(counts.read)
        except UnfitError:
            counts.unfit.add(counts.read)
        except UnknownLineError:
            counts.unknown.add(counts.read)
        return None


def _left_out(name: str, counts: LineCounts) -> Iterator[str]:
    """Notes about the lines of a file that cannot be used."""
    older, unfit, unknown = counts.of_text_form, counts.unfit, counts.unknown
    if counts.fault and not counts.read:
        yield f"{name} is left out: {counts.fault}"
    elif counts.fault:
        yield f"{name} is read up to line {counts.read}: {counts.fault}"
    if older.count and not counts.requests:
        yield f"{name} is left out: it is {TEXT_FORM}; only JSON can be read"
    elif older.count:
        yield (
            f"{name}: {older.count} of {counts.read} lines are {TEXT_FORM} and are left out; the"
            f" first is line {older.first}"
        )
    if unfit.count:
        yield (
            f"{name}: {unfit.count} of {counts.read} lines are not in Kafka's layout; the first is"
            f" line {unfit.first}"
        )
    if unknown.count:
        yield (
            f"{name}: {unknown.count} of {counts.read} lines are of no known component; the first"
            f" is line {unknown.first}"
        )


def _shared(brokers: Mapping[PurePosixPath, int]) -> Iterator[str]:
    """Notes about brokers with logs in several folders, and about logs of unknown brokers."""
    for broker in sorted(set(brokers.values())):
        folders = sorted(str(folder) for folder, one in brokers.items() if one == broker)
        if len(folders) > 1 and broker != UNKNOWN:
            yield f"the logs of broker {broker} are in {', '.join(folders)}: all are read"
        elif broker == UNKNOWN:
            yield f"the broker that wrote the logs in {', '.join(folders)} is unknown"


def _group(log: BrokerLog) -> tuple[str, str]:
    return str(PurePosixPath(log.name).parent), log.kind
