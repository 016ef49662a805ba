"""Applying a batch of messages to clusters, on an executor.

The health is written before the state that the next batch resumes from. If a task fails at any
point its messages are delivered again: messages that were applied change nothing, and the same
health is written.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from replay.fleet.live.folder import ClusterFolder, LiveFolder
from replay.fleet.live.mirrored_log import MirroredLog, MirroredLogState

_NS_IN_US: Final = 1000


class BatchCounts(Struct, frozen=True):
    """The content of a batch, or of a part of it. `newest_ms` is the time at which the last new
    event was observed. `broken` maps each log that stopped being folded, as CLUSTER/LOG, to the
    reason.
    """

    messages: int = 0
    events: int = 0
    clusters: int = 0
    newest_ms: int = 0
    broken: dict[str, str] = {}

    def __add__(self, other: "BatchCounts") -> "BatchCounts":
        return BatchCounts(
            self.messages + other.messages,
            self.events + other.events,
            self.clusters + other.clusters,
            max(self.newest_ms, other.newest_ms),
            {**self.broken, **other.broken},
        )


def fold_messages(rows: Iterable[Any], folder: LiveFolder) -> Iterator[BatchCounts]:
    """Fold messages, sorted by cluster, log and offset. All messages of a cluster in a batch are in
    one task."""
    for name, of_cluster in groupby(rows, attrgetter("cluster")):
        with folder.cluster(name) as place:
            yield _update_cluster(name, of_cluster, place)


def _update_cluster(name: str, rows: Iterable[Any], place: ClusterFolder) -> BatchCounts:
    known = place.known_logs()
    logs: dict[str, MirroredLog] = {}
    messages = 0
    for key, of_log in groupby(rows, attrgetter("key")):
        log = key.partition("/")[2]
        logs[log] = MirroredLog(place.log_state(log))
        for row in of_log:
            messages += 1
            logs[log].add(bytes(row.value), row.part)
    states = {log: one.state() for log, one in logs.items()}
    broke = [log for log, one in states.items() if one.trouble and not _trouble_of(known.get(log))]
    known |= {log: _log_row(log, one) for log, one in states.items()}
    newest = max(known, key=lambda log: (known[log]["term"], log))
    _write_health(place, newest, logs, states)
    for log, row in known.items():
        if log != newest and row["state"] == "controller":
            row["state"] = "superseded"
    place.write_logs([known[log] for log in sorted(known)])
    for log, one in states.items():
        place.write_log_state(log, one)
    return BatchCounts(
        messages,
        sum(one.new_events for one in logs.values()),
        1,
        max(
            (states[log].wall_ns // 1_000_000 for log, one in logs.items() if one.new_events),
            default=0,
        ),
        {f"{name}/{log}": states[log].trouble for log in broke},
    )


def _write_health(
    place: ClusterFolder,
    newest: str,
    logs: dict[str, MirroredLog],
    states: dict[str, MirroredLogState],
) -> None:
    """Write the health from the log whose daemon was controller last; unchanged if it has nothing
    new."""
    partitions = logs[newest].partitions() if newest in logs else None
    if partitions is None:
        return
    origin = states[newest]
    moment = {
        "log": origin.name or newest,
        "term": origin.term,
        "seq": origin.seq,
        "time": origin.wall_ns // _NS_IN_US,
    }
    place.write_health([{**asdict(one), **moment} for one in partitions])


def _log_row(log: str, states: MirroredLogState) -> dict[str, Any]:
    state = "controller" if states.is_active else "standby"
    if states.is_ended:
        state = "ended"
    return {
        "log": states.name or log,
        "folder": log,
        "state": "broken" if states.trouble else state,
        "term": states.term,
        "seq": states.seq,
        "time": states.wall_ns // _NS_IN_US,
        "trouble": states.trouble or None,
    }


def _trouble_of(row: dict[str, Any] | None) -> str | None:
    return None if row is None else row["trouble"]
