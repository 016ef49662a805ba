"""The log of a stock cluster, folded by this version beside the cluster's own controllers.

The fold is held to what the log shows (replay.agreement): after each of its decisions the cluster
goes on with what the stock controller did, so that each decision can be compared. What comes of a
difference is found out apart, by a fold that is the controller itself (`imported_way`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.agreement.agreeing import paired
from replay.agreement.comparison import agreeing_on, told
from replay.agreement.index import Index
from replay.agreement.results import AgreementResult, result_of
from replay.agreement.stock_controller import StockController
from replay.agreement.znode_view import ZnodeView
from replay.diff.messages import Agreed, Disagreement, Folded
from replay.diff.version.beside import Beside
from replay.diff.version.imported_way import ImportedWay, is_election
from replay.diff.version.imported_world import ImportedWorld
from replay.diff.version.wanted import Progress, Wanted
from replay.world_log.encoding import UPCASTERS, event_of
from replay.world_log.events import Observed
from replay.world_log.reading import open_world
from replay.zookeeper_log.transactions import Transaction


def fold_imported(
    log: Path, wanted: Wanted, settings: Mapping[str, str], progress: Progress, since: int = 0
) -> Folded:
    """What this version decides beside a cluster's controllers; and, if `since` is not 0, what
    becomes of the cluster if it is the controller from the last election before that record on.

    Raises ReplayError, LogError.
    """
    controllers: list[StockController] = []

    def follow(controller: StockController) -> None:
        controllers.append(controller)
        controller.fold.controller.follower = Beside(controller.fold, [])

    with LogReader.open(log, UPCASTERS) as reader:
        world = open_world(reader)
        last = reader.last_seq
        agreeing = agreeing_on(
            world, last, "kafka", settings, lambda what, done, total: progress(done), follow
        )
        agreement = agreeing.run(
            told(world, "folding", last, lambda what, done, total: progress(done))
        )
        sessions = {one.session: _follower(one) for one in controllers}
        end_ns = 0
        for follower in sessions.values():
            for issued, seq, time_ns, cause in follower.noted:
                turn = issued.id.cause
                wanted.deciding.take([issued], seq, turn, time_ns, "", {issued.id: cause})
                end_ns = max(end_ns, time_ns)
        begun = max((one for one in _elections(reader) if one <= since), default=0)
        if not begun:
            agreed = _agreed(result_of(agreement, str(log)))
            return Folded(last, end_ns, is_beside=True, agreed=agreed)
        way = _go(reader, begun, agreeing.index, sessions, wanted, progress)
    courses = wanted.courses.result()
    return Folded(last, max(end_ns, way.end_ns), begun, way.assumed, courses)


def _follower(controller: StockController) -> Beside:
    follower = controller.fold.controller.follower
    assert isinstance(follower, Beside), "each session is followed"
    return follower


def _agreed(result: AgreementResult) -> Agreed:
    return Agreed(
        result.decisions + result.requests.decisions,
        result.agreed + result.requests.agreed,
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
    )


def _elections(reader: LogReader) -> Iterator[int]:
    """The transactions by which a session became controller."""
    for record in reader.events(EventFilter(kinds=("observed",))):
        event = event_of(record)
        if record.cause is not None and isinstance(event, Observed) and is_election(event):
            yield record.cause


def _go(
    reader: LogReader,
    begun: int,
    index: Index,
    sessions: Mapping[int, Beside],
    wanted: Wanted,
    progress: Progress,
) -> ImportedWay:
    """Through the log anew, up to the election as in the log."""
    world = open_world(reader)
    view = ZnodeView(world.state.tree, world.begun.chroot)
    way: ImportedWay | None = None
    for record, event, found in paired(told(world, "", 0, lambda _, done, __: progress(done))):
        if record.seq > index.last_transaction:
            break
        if record.seq == begun:
            way = ImportedWay(ImportedWorld(world.state, view), sessions, index, wanted.courses)
        if way is not None:
            way.take(record, event, found)
        elif isinstance(event, Transaction):
            world.state.apply(event)
    assert way is not None, f"record {begun} is an election"
    way.finish()
    return way
