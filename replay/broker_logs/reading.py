"""All brokers' logs of a source as one, merged by their times."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from heapq import merge
from itertools import groupby
from operator import attrgetter
from pathlib import PurePosixPath

from replay.broker_logs.controller_log import controller_logged
from replay.broker_logs.folders import UNKNOWN, brokers_of, in_order
from replay.broker_logs.lines import Line, LineCounts, lines_of
from replay.broker_logs.request_log import TextFormError, UnfitError, request_served
from replay.broker_logs.state_change_log import state_change_logged
from replay.world_log.events import BrokerLogged, LoggedEvent
from replay.zookeeper_log.data_folder import BrokerLog


class BrokerLogs:
    """The brokers' logs of a source; `events` reads all files anew, line by line.

    `notes` tells, after a reading, of lines and files that could not be used.
    """

    def __init__(self, logs: Sequence[BrokerLog], zone: tzinfo) -> None:
        """Looks into each file for its broker and its first time."""
        self.notes: list[str] = []
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
        groups = [one for one in self._groups if kinds is None or one[0].kind in kinds]
        yield from merge(*map(self._events_of, groups), key=attrgetter("time_ms"))

    def _events_of(self, files: Sequence[BrokerLog]) -> Iterator[LoggedEvent]:
        for log in files:
            broker = self._brokers[PurePosixPath(log.name).parent]
            whose = "unknown broker" if broker == UNKNOWN else f"broker {broker}"
            channel = f"{whose} {log.kind}"
            counts = LineCounts()
            try:
                for line in lines_of(log.path, self._zone, counts):
                    event = self._event(log.kind, line, broker, counts)
                    if event is not None:
                        yield LoggedEvent(line.time_ms, channel, event)
            except TextFormError as error:
                self.notes.append(f"{log.name} is left out: {error}")
            if counts.fault:
                self.notes.append(f"{log.name} is read up to line {counts.read}: {counts.fault}")
            if counts.unfit:
                self.notes.append(
                    f"{log.name}: {counts.unfit} of {counts.read} lines are not in Kafka's layout,"
                    f" the first is line {counts.first_unfit}"
                )

    @staticmethod
    def _event(kind: str, line: Line, broker: int, counts: LineCounts) -> BrokerLogged | None:
        if kind == "controller.log":
            return controller_logged(line)
        if kind == "state-change.log":
            return state_change_logged(line)
        try:
            return request_served(line, broker)
        except UnfitError:
            counts.unfit += 1
            counts.first_unfit = counts.first_unfit or counts.read
            return None


def _shared(brokers: Mapping[PurePosixPath, int]) -> Iterator[str]:
    """What to tell where several folders hold the logs of one broker."""
    for broker in sorted(set(brokers.values())):
        folders = sorted(str(folder) for folder, one in brokers.items() if one == broker)
        if len(folders) > 1 and broker != UNKNOWN:
            yield f"the logs of broker {broker} lie in {', '.join(folders)}: all are read"
        elif broker == UNKNOWN:
            yield f"which broker wrote the logs in {', '.join(folders)} is not known"


def _group(log: BrokerLog) -> tuple[str, str]:
    return str(PurePosixPath(log.name).parent), log.kind
