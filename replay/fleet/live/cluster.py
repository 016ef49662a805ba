"""Bringing clusters up to a batch of messages, on an executor.

The health is written before what the next batch goes on from. However a task ends, its messages
come again; those that were taken change nothing, and the health is written as it was.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from replay.fleet.live.folder import ClusterFolder, LiveFolder
from replay.fleet.live.following import FollowedLog, Kept

_NS_IN_US: Final = 1000


class Taken(Struct, frozen=True):
    """What a batch, or a part of it, came to. `newest_ms`: when the last new event was observed;
    `broken` are logs that are not followed any further, as CLUSTER/LOG, each with why."""

    messages: int = 0
    events: int = 0
    clusters: int = 0
    newest_ms: int = 0
    broken: dict[str, str] = {}

    def __add__(self, other: "Taken") -> "Taken":
        return Taken(
            self.messages + other.messages,
            self.events + other.events,
            self.clusters + other.clusters,
            max(self.newest_ms, other.newest_ms),
            {**self.broken, **other.broken},
        )


def take_messages(rows: Iterable[Any], folder: LiveFolder) -> Iterator[Taken]:
    """Take messages, sorted by cluster, log and offset, with all of a batch for each cluster."""
    for name, of_cluster in groupby(rows, attrgetter("cluster")):
        with folder.cluster(name) as place:
            yield _take_cluster(name, of_cluster, place)


def _take_cluster(name: str, rows: Iterable[Any], place: ClusterFolder) -> Taken:
    known = place.known_logs()
    followed: dict[str, FollowedLog] = {}
    messages = 0
    for key, of_log in groupby(rows, attrgetter("key")):
        log = key.partition("/")[2]
        followed[log] = FollowedLog(place.kept(log))
        for row in of_log:
            messages += 1
            followed[log].take(bytes(row.value), row.part)
    kept = {log: one.kept() for log, one in followed.items()}
    broke = [log for log, one in kept.items() if one.trouble and not _trouble(known.get(log))]
    known |= {log: _log_row(log, one) for log, one in kept.items()}
    last = max(known, key=lambda log: (known[log]["term"], log))
    _write_health(place, last, followed, kept)
    for log, row in known.items():
        if log != last and row["state"] == "controller":
            row["state"] = "superseded"
    place.write_logs([known[log] for log in sorted(known)])
    for log, one in kept.items():
        place.keep(log, one)
    return Taken(
        messages,
        sum(one.taken for one in followed.values()),
        1,
        max(
            (kept[log].wall_ns // 1_000_000 for log, one in followed.items() if one.taken),
            default=0,
        ),
        {f"{name}/{log}": kept[log].trouble for log in broke},
    )


def _write_health(
    place: ClusterFolder, last: str, followed: dict[str, FollowedLog], kept: dict[str, Kept]
) -> None:
    """What the log says whose daemon was controller last; as it was, if that has nothing new."""
    partitions = followed[last].partitions() if last in followed else None
    if partitions is None:
        return
    origin = kept[last]
    moment = {
        "log": last,
        "term": origin.term,
        "seq": origin.seq,
        "time": origin.wall_ns // _NS_IN_US,
    }
    place.write_health([{**asdict(one), **moment} for one in partitions])


def _log_row(log: str, kept: Kept) -> dict[str, Any]:
    state = "controller" if kept.is_active else "standby"
    if kept.is_ended:
        state = "ended"
    return {
        "log": log,
        "state": "broken" if kept.trouble else state,
        "term": kept.term,
        "seq": kept.seq,
        "time": kept.wall_ns // _NS_IN_US,
        "trouble": kept.trouble or None,
    }


def _trouble(row: dict[str, Any] | None) -> str | None:
    return None if row is None else row["trouble"]
