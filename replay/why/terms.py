"""The terms of a cluster's controllers, from logs of refold's daemon and imported logs together."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from replay.cluster_view.from_znodes import cluster_of
from replay.cluster_view.views import ClusterView
from replay.progress import Progress
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.times import iso_time
from replay.why import recorded
from replay.why.event_reference import NumberInLog, number_in_log
from replay.why.facts import AnyFact, RoleChanged
from replay.why.history import FactHistory
from replay.why.imported import follow_znodes
from replay.why.recorded import LogPart
from replay.why.subject import Subject
from replay.why.znode_history import ZnodeHistory


class ImportedPart(NamedTuple):
    """An imported log up to event `seq`."""

    log: ImportedLog
    seq: int
    name: str


def history_of(
    runs: Sequence[LogPart],
    imports: Sequence[ImportedPart],
    subject: Subject,
    progress: Progress,
) -> FactHistory:
    """The changes of the controller role in all logs, by their times. A term of the daemon comes
    from its own log. Raises ReplayError, LogError."""
    facts: list[AnyFact] = []
    notes: list[str] = []
    clusters: list[ClusterView] = []
    is_at_end = False
    if runs:
        history = recorded.history_of(runs, subject, progress)
        facts, notes = list(history.facts), history.notes
        clusters.append(history.cluster)
        is_at_end = history.is_at_end
    own = {one.epoch for one in facts if isinstance(one, RoleChanged) and one.code == "elected"}
    for log, seq, name in imports:
        found = follow_znodes(ZnodeHistory(log, subject), log, seq, progress)
        facts += [
            structs.replace(one, seq=NumberInLog(0, one.seq, name))
            for one in (*found.facts, *found.stuck_controller())
            if one.epoch not in own
        ]
        cluster = cluster_of(found.view, seq, iso_time(found.wall_ns) if found.seq else "")
        clusters.append(structs.replace(cluster, seq=NumberInLog(0, cluster.seq, name)))
    last = max(clusters, key=lambda one: one.time)
    is_at_end = is_at_end and last is clusters[0]
    return FactHistory(subject, last, _in_order(facts), notes, is_at_end=is_at_end)


def _in_order(facts: Iterable[AnyFact]) -> list[AnyFact]:
    """The facts by their times, with numbers in this order."""
    ordered = sorted(facts, key=lambda one: (one.wall_ns, number_in_log(one.seq)))
    return [
        structs.replace(one, seq=_number(order, one)) for order, one in enumerate(ordered, start=1)
    ]


def _number(order: int, fact: AnyFact) -> int:
    seq = fact.seq
    return NumberInLog(order, seq.seq, seq.log) if isinstance(seq, NumberInLog) else seq
