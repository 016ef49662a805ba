"""The headline of `refold inspect`: what the controller of a log could not do.

It comes from the stored notices of a recorded log, of which nothing is folded, and from the
brokers' logs and the shadow folds of an imported one.
"""

from collections.abc import Iterator
from typing import Final

from controller.core.commands import Notice
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from replay.cluster_view.later_epochs import later_epochs
from replay.cluster_view.views import NO_BROKER, ClusterView
from replay.cluster_view.waiting import silent_broker, stuck_registrations, unfinished_failover
from replay.logs.decode import wall_ns_of
from replay.logs.notices import notices
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress, unreported
from replay.why.facts import AnyFact, NoticeIssued, RoleChanged
from replay.why.history import FactHistory
from replay.why.imported import history_of
from replay.why.subject import CONTROLLER_FAILURES, Subject

UNHEALTHY: Final = Subject(is_unhealthy=True)
_ROLES: Final = ("elected", "failover_done", "failover_failed", "resigned")


def headline_of(log: OpenedLog, cluster: ClusterView, progress: Progress = unreported) -> str:
    """Sentences about the failures of the controller up to event `cluster.seq`, a failover that is
    under way, a queue that is stuck, brokers that do not answer, registrations that are stuck, and
    partitions that have a later controller epoch; "" for none. Raises ReplayError, LogError."""
    if isinstance(log, RecordedLog):
        return headline_in(FactHistory(UNHEALTHY, cluster, list(_notices(log.reader, cluster.seq))))
    return headline_in(history_of(log, UNHEALTHY, cluster.seq, progress))


def headline_in(history: FactHistory) -> str:
    """The sentences of `headline_of`, from a history whose subject is `UNHEALTHY`."""
    cluster = history.cluster
    silent = [silent_broker(cluster, one.broker) for one in cluster.unanswered]
    stuck = stuck_registrations(cluster)
    found = [
        history.headline(),
        unfinished_failover(cluster),
        *silent,
        *stuck,
        later_epochs(cluster),
    ]
    return " ".join(filter(None, found))


def _notices(reader: LogReader, seq: int) -> Iterator[AnyFact]:
    """The failures of the controller, and its elections. Only the first of several equal failures
    in a term has a time."""
    timed: set[tuple[str, int]] = set()
    for stored, notice in notices(reader, seq):
        if notice.code not in (*_ROLES, *CONTROLLER_FAILURES):
            continue
        key = (notice.code, stored.term)
        wall_ns = 0 if key in timed else wall_ns_of(reader, stored.cause)
        timed.add(key)
        yield _fact(notice, stored, wall_ns)


def _fact(notice: Notice, stored: CommandRecord, wall_ns: int) -> AnyFact:
    if notice.code in _ROLES:
        return RoleChanged(
            seq=stored.cause,
            wall_ns=wall_ns,
            epoch=stored.term,
            code=notice.code,
            broker=NO_BROKER,
            text=notice.text,
        )
    return NoticeIssued(
        seq=stored.cause,
        wall_ns=wall_ns,
        epoch=stored.term,
        level=notice.level,
        code=notice.code,
        subject=notice.subject,
        text=notice.text,
    )
