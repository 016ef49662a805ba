"""Opening what is to be compared: a world-backed log, or a source that is imported first."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from controller.core.configuration import Configuration
from controller.core.errors import ConfigurationError
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.errors import ReplayError
from replay.escape_path import escape_path
from replay.progress import Progress, unreported
from replay.stock_clusters.agreement.between import with_between
from replay.stock_clusters.agreement.conformance import ConformanceChecker, Follow
from replay.stock_clusters.agreement.either_order import RUNS_MAX, in_the_order_that_fits
from replay.stock_clusters.agreement.gap_free_ranges import gap_free_ranges, import_told
from replay.stock_clusters.agreement.index import Index
from replay.stock_clusters.agreement.lost_replies import LostReplies
from replay.stock_clusters.agreement.order import Order
from replay.stock_clusters.agreement.repeated_writes import repeated_writes
from replay.stock_clusters.agreement.results import AgreementResult, result_of
from replay.stock_clusters.agreement.unanswered import WithLostReplies, may_have_lost
from replay.stock_clusters.agreement.znode_view import ZnodeView
from replay.stock_clusters.imported_log.encoding import UPCASTERS
from replay.stock_clusters.imported_log.events import WorldEvent
from replay.stock_clusters.imported_log.reading import ImportedLog, open_world
from replay.stock_clusters.imports.importing import Selection, import_source

Rules = Literal["kafka", "refold"]


@contextmanager
def imported(source: Path, selection: Selection, progress: Progress) -> Iterator[Path]:
    """A log of a source, for as long as it is needed. Raises ReplayError, LogError."""
    with TemporaryDirectory(prefix="refold-agree-") as folder:
        log = Path(folder) / "log"
        import_source(source, log, selection, progress)
        yield log


def agree(
    log: Path,
    rules: Rules = "kafka",
    settings: Mapping[str, str] | None = None,
    progress: Progress = unreported,
    orders: int = RUNS_MAX,
) -> AgreementResult:
    """Compare the decisions in a world-backed log with the fold's.

    `settings` are those of the brokers that a log does not hold, by Kafka's names; of other orders
    at most `orders` are tried. Raises ReplayError, LogError.
    """
    with LogReader.open(log, UPCASTERS) as reader:
        compared = _comparing(reader, escape_path(log), rules, settings, progress)
        if rules == "kafka":
            answering = WithLostReplies(compared, reader.last_seq)
            result = in_the_order_that_fits(answering.compare, reader.last_seq, orders)
            result.notes += answering.notes
        else:
            result = compared(Order(), LostReplies())
        if not result.decisions and not result.requests.decisions:
            result.notes.append("nothing was judged: the log has no decision behind an election")
        notes, result.missing_transactions, ended = import_told(reader)
        result.notes += notes
        result.missing_transactions += ended.missing_before
        result.passed_over, result.is_cut = ended.passed_over, ended.is_cut
        result.altered = ended.altered + len(ended.repeated)
        result.add_damage({one.file: one.count for one in ended.damaged})
        world = open_world(reader)
        for one in repeated_writes(reader, {*ended.repeated}, world.begun.chroot):
            result.add_decision(one)
        return with_between(result, world) if result.divergences else result


def lost_replies(
    reader: LogReader, settings: Mapping[str, str] | None = None, progress: Progress = unreported
) -> LostReplies:
    """Which decisions in a world-backed log were not answered, for who walks through it himself.
    Raises ReplayError, LogError."""
    if not may_have_lost(reader):
        return LostReplies()
    answering = WithLostReplies(
        _comparing(reader, "", "kafka", settings, progress), reader.last_seq
    )
    answering.compare(Order())
    return answering.replies


def _comparing(
    reader: LogReader,
    source: str,
    rules: Rules,
    settings: Mapping[str, str] | None,
    progress: Progress,
) -> Callable[[Order, LostReplies], AgreementResult]:
    tried = count(1)
    last = reader.last_seq

    def compared(order: Order, replies: LostReplies) -> AgreementResult:
        order.begin()
        result = AgreementResult(source=source)
        what = f"trying order {next(tried)}" if order.instead else "comparing"
        for world in gap_free_ranges(reader):
            agreeing = agreeing_on(
                world, last, rules, settings, progress, order=order, replies=replies
            )
            agreement = agreeing.run(told(world, what, last, progress))
            of_stretch = result_of(agreement, result.source)
            of_stretch.settings = agreeing.settings
            of_stretch.notes += [one for one in agreeing.notes if one not in result.notes]
            result.go_on(of_stretch)
        return result

    return compared


def agreeing_on(
    world: ImportedLog,
    last: int,
    rules: Rules,
    settings: Mapping[str, str] | None,
    progress: Progress,
    follow: Follow = lambda _: None,
    order: Order | None = None,
    replies: LostReplies | None = None,
) -> ConformanceChecker:
    """A comparison that is about to begin: what has to be known of the whole log before is known.

    `follow` is told of each session that wants to be controller, before its fold begins. Raises
    ReplayError, LogError.
    """
    chroot = world.begun.chroot
    view = ZnodeView(world.state.tree, chroot)
    index = Index(told(world, "looking through", last, progress), chroot, view)
    given = dict(settings or {})
    return ConformanceChecker(
        world, _configuration(given, rules), index, given, follow, order, replies
    )


def told(
    world: ImportedLog, what: str, last: int, progress: Progress
) -> Iterator[tuple[EventRecord, WorldEvent]]:
    """The records of a log, with progress."""
    for record, event in world.events():
        progress(what, record.seq, last)
        yield record, event


_SETTINGS: Final = {
    "inter.broker.protocol.version": "inter_broker_protocol_version",
    "inter.broker.listener.name": "inter_broker_listener",
    "control.plane.listener.name": "control_plane_listener",
    "unclean.leader.election.enable": "unclean_leader_election_enable",
    "delete.topic.enable": "delete_topic_enable",
    "auto.leader.rebalance.enable": "auto_leader_rebalance_enable",
    "leader.imbalance.per.broker.percentage": "leader_imbalance_per_broker_percentage",
    "leader.imbalance.check.interval.seconds": "leader_imbalance_check_interval_seconds",
}
"""A broker's settings on which its decisions as controller depend, by Kafka's names."""

_TYPES: Final = {one.name: one.type for one in structs.fields(Configuration)}


def _configuration(settings: Mapping[str, str], rules: Rules) -> Configuration:
    """The settings of a stock broker, as far as decisions depend on them."""
    for key in settings:
        if key not in _SETTINGS:
            raise ReplayError(
                f"{key} is no setting that changes decisions; those are {', '.join(_SETTINGS)}"
            )
    values = {_SETTINGS[key]: _value(key, text) for key, text in settings.items()}
    try:
        configuration = Configuration(broker_id=0, rules=rules, **values)
        _ = configuration.protocol
    except ConfigurationError as error:
        raise ReplayError(f"the brokers' settings cannot be used: {error}") from None
    return configuration


def _value(key: str, text: str) -> Any:
    wanted = _TYPES[_SETTINGS[key]]
    try:
        return msgspec.convert(text, wanted, strict=False)
    except msgspec.ValidationError:
        what = "true or false" if wanted is bool else "a whole number"
        raise ReplayError(
            f"the brokers' settings cannot be used: {key}={text}: it is {what}"
        ) from None
