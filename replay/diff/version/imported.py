"""The log of a stock cluster, folded by this version beside the cluster's own controllers.

The fold is held to what the log shows (replay.stock_clusters.agreement): after each of its
decisions the cluster goes on with what the stock controller did, so that each can be compared. The
consequences of a difference are found by a fold that is the controller itself (`imported_way`).
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.diff.messages import Agreed, Disagreement, Folded
from replay.diff.version.fold_options import Wanted
from replay.diff.version.imported_way import ImportedWay, is_election
from replay.diff.version.imported_world import ImportedWorld
from replay.logs.open_log import open_reader
from replay.progress import Progress
from replay.shadow_folds import ShadowObserver, shadow_folds
from replay.stock_clusters.agreement.comparison import with_progress
from replay.stock_clusters.agreement.conformance import paired
from replay.stock_clusters.agreement.gap_free_ranges import gap_free_ranges
from replay.stock_clusters.agreement.logs.index import Index
from replay.stock_clusters.agreement.results import AgreementResult, Side, result_of
from replay.stock_clusters.agreement.trace.znode_view import ZnodeView
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import Observed
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.imported_log.restored import apply


def fold_imported(
    log: Path, wanted: Wanted, settings: Mapping[str, str], progress: Progress, since: int = 0
) -> Folded:
    """What this version decides beside a cluster's controllers; and, if `since` is not 0, what
    becomes of the cluster if it is the controller from the last election before that record on.

    Raises ReplayError, LogError.
    """
    with open_reader(log) as reader:
        result, last, end_ns = AgreementResult(), reader.last_seq, 0
        elections: dict[int, _Stretch] = {}
        for number, found in enumerate(shadow_folds(reader, ShadowObserver, settings, progress)):
            result.go_on(result_of(found.agreement, str(log)))
            sessions = {trace.session: observer for trace, observer in found.sessions}
            stretch = _Stretch(number, found.log_index, sessions)
            elections |= dict.fromkeys(_elections(found.log), stretch)
            end_ns = max(end_ns, _take_decided(stretch, wanted))
        begun = max((one for one in elections if one <= since), default=0)
        if not begun:
            return Folded(last, end_ns, is_beside=True, agreed=_agreed(result))
        way = _go(reader, begun, elections[begun], wanted, progress)
    courses = wanted.courses.result()
    return Folded(last, max(end_ns, way.end_ns), begun, way.assumed, courses)


def _take_decided(stretch: "_Stretch", wanted: Wanted) -> int:
    """Show what was decided; when the last of it was, in ns."""
    end_ns = 0
    for follower in stretch.sessions.values():
        for issued, seq, time_ns, cause in follower.noted:
            turn = issued.id.cause
            wanted.deciding.take([issued], seq, turn, time_ns, "", {issued.id: cause})
            end_ns = max(end_ns, time_ns)
    return end_ns


class _Stretch(Struct, frozen=True):
    """One of the log's stretches: which one, and what was found when it was folded."""

    number: int
    index: Index
    sessions: Mapping[int, ShadowObserver]


def _agreed(result: AgreementResult) -> Agreed:
    both = Side()
    both.go_on_with(result)
    both.go_on_with(result.requests)
    return Agreed(
        both.decisions,
        both.agreed,
        [
            Disagreement(
                one.verdict,
                one.subject,
                one.kind,
                one.seq,
                one.zxid,
                one.cause,
                one.paths,
                one.differences,
                one.explained,
            )
            for one in result.divergences
        ],
        {rule: (one.decisions, one.agreed) for rule, one in both.by_rule.items()},
    )


def _elections(world: ImportedLog) -> Iterator[int]:
    """The transactions by which a session became controller."""
    wanted = EventFilter(first_seq=world.first_seq, last_seq=world.last_seq, kinds=("observed",))
    for record in world.reader.events(wanted):
        event = event_of(record)
        if record.cause is not None and isinstance(event, Observed) and is_election(event):
            yield record.cause


def _go(
    reader: LogReader,
    begun: int,
    stretch: _Stretch,
    wanted: Wanted,
    progress: Progress,
) -> ImportedWay:
    """Through the stretch anew, up to the election as in the log."""
    world = next(islice(gap_free_ranges(reader), stretch.number, None))
    view = ZnodeView(world.state.tree, world.begun.chroot)
    way: ImportedWay | None = None
    for record, event, found in paired(
        with_progress(world, "following", reader.last_seq, progress)
    ):
        if record.seq > stretch.index.last_transaction:
            break
        if record.seq == begun:
            now = ImportedWorld(world.state, view)
            way = ImportedWay(now, stretch.sessions, stretch.index, wanted.courses)
        if way is not None:
            way.take(record, event, found)
        else:
            apply(world.state, event)
    assert way is not None, f"record {begun} is an election"
    way.finish()
    return way
