"""What the last record of an import says: how much of the source could not be used."""

from collections import Counter
from collections.abc import Mapping, Sequence

from replay.stock_clusters.broker_logs.reading import BrokerLogs
from replay.stock_clusters.imported_log.events import DamagedFile, ImportEnded
from replay.stock_clusters.imports.logged_requests import Asked
from replay.stock_clusters.zookeeper_log.damage import Damage
from replay.stock_clusters.zookeeper_log.merging import MergedLogs
from replay.stock_clusters.zookeeper_log.source import Source


def import_ended(
    source: Source,
    logs: MergedLogs,
    broker_logs: BrokerLogs,
    asked: Asked,
    notes: Sequence[str],
    missing_before: int,
    altered: Mapping[int, str],
) -> ImportEnded:
    """Of logs that were read to their end; `altered`: transactions that are not what the server
    wrote, by zxid, with their files. What a server that is killed leaves unfinished is no
    damage."""
    damages = [*source.damages, *logs.damages]
    damaged = Counter(broker_logs.damaged)
    damaged.update(
        {f"request log of broker {one}": count for one, count in asked.unreadable.items()}
    )
    damaged.update(one.file for one in damages if not one.is_torn)
    damaged.update(altered.values())
    repeated: set[int] = set()
    passed_over = 0
    for one in logs.misplaced:
        damaged[one.file] += len(one.records)
        if one.where == "again":
            repeated.update(record.zxid for record in one.records)
        else:
            passed_over += len(one.records)
    return ImportEnded(
        damages,
        list(notes),
        [DamagedFile(*one) for one in sorted(damaged.items())],
        passed_over,
        sorted(repeated),
        source.is_cut or any(_ends(one, logs) for one in logs.damages),
        missing_before,
        len(altered),
    )


def _ends(damage: Damage, logs: MergedLogs) -> bool:
    """Whether no other file goes on behind it."""
    return not damage.is_torn and damage.zxid in (None, logs.zxid)
