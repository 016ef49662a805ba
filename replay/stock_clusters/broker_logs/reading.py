"""Merges all brokers' logs of a source by time.

A request log does not name its broker, but every line of the other logs in the same folder does.
Without such logs, the folder's name must end with the broker id, as in `broker-3`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Final, Protocol

from replay.stock_clusters.broker_logs.controller_log import controller_logged
from replay.stock_clusters.broker_logs.lines import (
    LineCounts,
    LogLine,
    UnknownLineError,
    UnparsedLineTimes,
    first_time_ms,
    lines_of,
)
from replay.stock_clusters.broker_logs.request_log import (
    TEXT_FORM,
    MalformedLineError,
    TextFormError,
    request_served,
)
from replay.stock_clusters.broker_logs.state_change_log import state_change_logged
from replay.stock_clusters.imported_log.events import (
    BrokerLogged,
    DamagedLines,
    LoggedEvent,
    TornLog,
)
from replay.stock_clusters.zookeeper_log.data_folder import BrokerLogFile

_UNKNOWN: Final = -1
"""The broker of a log if nothing names it."""

_NAMING: Final = re.compile(r"\[(?:Controller|Broker) id=(\d+)|\[\w+ controllerId=(\d+)\]")
_NUMBERED: Final = re.compile(r"(?:^|\D)(\d+)$")
_LINES_MAX: Final = 1000


class AllBrokerLogs(Protocol):
    """The brokers' logs of one or of several sources; see BrokerLogs."""

    @property
    def notes(self) -> list[str]:
        """The report about lines and files that cannot be used."""

    @property
    def damaged(self) -> dict[str, int]:
        """The number of lines that cannot be used, by file."""

    @property
    def torn(self) -> list[TornLog]:
        """The files whose rest cannot be read."""

    @property
    def damaged_lines(self) -> list[DamagedLines]:
        """The lines that cannot be used."""

    def events(self, kinds: Sequence[str] | None = None) -> Iterator[LoggedEvent]:
        """The events of all logs, or those of some kinds."""


class BrokerLogs:
    """The brokers' logs of a source. Each call of `events` reads all files line by line.

    After a reading, `notes` are about lines and files that cannot be used, and `damaged` has the
    number of such lines by file. If the rest of a file cannot be read, that counts as one line.
    `not_understood` is the number of all lines that cannot be parsed. `torn` are the logs whose
    last file has no end, `damaged_lines` the times of other lines that cannot be parsed.
    """

    def __init__(self, logs: Sequence[BrokerLogFile], zone: tzinfo) -> None:
        """Find each file's broker and first time."""
        self.notes: list[str] = []
        self.damaged: dict[str, int] = {}
        self.torn: list[TornLog] = []
        self.damaged_lines: list[DamagedLines] = []
        self.not_understood = 0
        self._zone = zone
        self._brokers = _brokers_of(logs, zone)
        self._shared = [*_broker_notes(self._brokers)]
        self._groups = [
            _in_order(list(files), zone)
            for _, files in groupby(sorted(logs, key=_group), key=_group)
        ]

    def events(self, kinds: Sequence[str] | None = None) -> Iterator[LoggedEvent]:
        """The events of all files, or of those of some kinds."""
        self.notes = [*self._shared]
        self.damaged = {}
        self.torn = []
        self.damaged_lines = []
        self.not_understood = 0
        groups = [one for one in self._groups if kinds is None or one[0].kind in kinds]
        yield from merge(*map(self._events_of, groups), key=attrgetter("time_ms"))

    def _events_of(self, files: Sequence[BrokerLogFile]) -> Iterator[LoggedEvent]:
        torn: TornLog | None = None
        lost, damaged = UnparsedLineTimes(), list[DamagedLines]()
        for log in files:
            broker = self._brokers[PurePosixPath(log.name).parent]
            whose = "unknown broker" if broker == _UNKNOWN else f"broker {broker}"
            channel = f"{whose} {log.kind}"
            counts = LineCounts(lost)
            for line in lines_of(log.path, self._zone, counts):
                event = event_of_line(log.kind, line, broker, counts)
                if event is not None:
                    yield LoggedEvent(line.time_ms, channel, event)
            self.notes += unusable_line_notes(log.name, counts)
            self.not_understood += counts.not_understood
            if counts.not_understood:
                self.damaged[log.name] = counts.not_understood
            has_no_end = counts.is_torn or bool(counts.fault)
            torn = TornLog(broker, log.kind) if has_no_end else None
            if counts.fault:
                lost.add_without_time()
            damaged = [DamagedLines(broker, log.kind, *one) for one in lost.found]
        self.damaged_lines += damaged
        if torn is not None:
            self.torn.append(torn)


def event_of_line(kind: str, line: LogLine, broker: int, counts: LineCounts) -> BrokerLogged | None:
    """The event that a line of a log of this kind shows; None for a line that is left out, which
    `counts` has then."""
    try:
        if kind == "controller.log":
            return controller_logged(line)
        if kind == "state-change.log":
            return state_change_logged(line)
        request = request_served(line, broker)
        counts.requests += 1
        return request
    except TextFormError:
        counts.of_text_form.add(line.number)
    except MalformedLineError:
        counts.malformed.add(line.number)
        counts.lost.add(line.time_ms)
    except UnknownLineError:
        counts.unknown.add(line.number)
        counts.lost.add(line.time_ms)
    return None


def _brokers_of(logs: Sequence[BrokerLogFile], zone: tzinfo) -> dict[PurePosixPath, int]:
    """The broker of each folder with logs, _UNKNOWN if none is named."""
    found: dict[PurePosixPath, int] = {}
    for log in logs:
        folder = PurePosixPath(log.name).parent
        if found.get(folder, _UNKNOWN) == _UNKNOWN:
            found[folder] = _broker_named_in(log, zone)
    for folder, broker in found.items():
        number = _NUMBERED.search(folder.name)
        if broker == _UNKNOWN and number is not None:
            found[folder] = int(number[1])
    return found


def _in_order(logs: Sequence[BrokerLogFile], zone: tzinfo) -> list[BrokerLogFile]:
    """Files of one kind in one folder, by the time of their first line; files without a time come
    last."""
    timed = [(first_time_ms(log.path, zone), log) for log in logs]
    return [
        log for _, log in sorted(timed, key=lambda one: (one[0] is None, one[0] or 0, one[1].name))
    ]


def _broker_named_in(log: BrokerLogFile, zone: tzinfo) -> int:
    for line in islice(lines_of(log.path, zone, LineCounts()), _LINES_MAX):
        found = _NAMING.match(line.message)
        if found is not None:
            return int(found[1] or found[2])
    return _UNKNOWN


def unusable_line_notes(name: str, counts: LineCounts) -> Iterator[str]:
    """Notes about the lines of a file that cannot be used."""
    older, malformed, unknown = counts.of_text_form, counts.malformed, counts.unknown
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
    if malformed.count:
        yield (
            f"{name}: {malformed.count} of {counts.read} lines are not in Kafka's layout; the first"
            f" is line {malformed.first}"
        )
    if unknown.count:
        yield (
            f"{name}: {unknown.count} of {counts.read} lines are of no known component; the first"
            f" is line {unknown.first}"
        )


def _broker_notes(brokers: Mapping[PurePosixPath, int]) -> Iterator[str]:
    """Notes about brokers with logs in several folders, and about logs of unknown brokers."""
    for broker in sorted(set(brokers.values())):
        folders = sorted(str(folder) for folder, one in brokers.items() if one == broker)
        if len(folders) > 1 and broker != _UNKNOWN:
            yield f"the logs of broker {broker} are in {', '.join(folders)}: all are read"
        elif broker == _UNKNOWN:
            yield f"the broker that wrote the logs in {', '.join(folders)} is unknown"


def _group(log: BrokerLogFile) -> tuple[str, str]:
    return str(PurePosixPath(log.name).parent), log.kind
