"""Compares an imported log, or a source that is imported first, with the fold."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from controller.core.configuration import Configuration
from controller.core.errors import ConfigurationError
from controller.escaping import escape_unprintable
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.agreement.assumptions import NO_ASSUMPTIONS, Assumptions, Choices
from replay.agreement.conformance import ConformanceChecker, Follow
from replay.agreement.gap_free_ranges import gap_free_ranges
from replay.agreement.import_report import import_report, repeated_writes
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.logs.log_ends import damaged_parts
from replay.agreement.records_between import with_records_between
from replay.agreement.results import AgreementResult, result_of
from replay.agreement.search.event_order import RUNS_MAX, EventOrder
from replay.agreement.search.lost_replies import LostReply, may_have_lost_replies
from replay.agreement.search.search import Compare, search
from replay.agreement.stored_replies import stored_or_found
from replay.agreement.unjudged_divergences import BrokersWithLogs, leave_unjudged
from replay.errors import ReplayError
from replay.logs.decode import UPCASTERS
from replay.progress import Progress, unreported
from replay.stock_clusters.imported_log.reading import ImportedLog, ImportedRecord, open_imported
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.znode_view import ZnodeView

Rules = Literal["kafka", "refold"]

_NS: Final = 1_000_000
_DECODED_BYTES_MAX: Final = 8 << 20
"""A log whose records have at most this size is decoded only once for all comparisons."""


@contextmanager
def temporary_import(source: Path, selection: Selection, progress: Progress) -> Iterator[Path]:
    """Import a source into a temporary log. Raises ReplayError, LogError."""
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
    """Compare the decisions in an imported log with the fold's.

    `settings` are broker settings that the log does not contain, by Kafka's names. At most `orders`
    other event orders are tried. Raises ReplayError, LogError.
    """
    with LogReader.open(log, UPCASTERS) as reader:
        logs = BrokersWithLogs(set(), set())
        compare = _comparison(reader, escape_unprintable(log), rules, settings, progress, logs)
        hypotheses = (LostReply(), EventOrder(orders)) if rules == "kafka" else ()
        result = search(compare, hypotheses, reader.last_seq).result
        result.notes += [one.note for one in result.cut_logs]
        notes, result.missing_transactions, ended = import_report(reader)
        result.damaged_parts += damaged_parts(ended.damaged_lines)
        if rules == "kafka":
            leave_unjudged(result, logs, _times_of(result, reader))
        if not result.decisions and not result.requests.decisions:
            result.notes.append("nothing was judged: the log has no decision after an election")
        result.notes += notes
        result.missing_transactions += ended.missing_before
        result.passed_over = ended.passed_over
        result.is_cut |= ended.is_cut
        result.altered = ended.altered + len(ended.repeated)
        result.add_damage({one.file: one.count for one in ended.damaged})
        imported = open_imported(reader)
        for one in repeated_writes(reader, {*ended.repeated}, imported.begun.chroot):
            result.add_decision(one)
        return with_records_between(result, imported) if result.divergences else result


def _times_of(result: AgreementResult, reader: LogReader) -> dict[int, int]:
    """The wall clock, in ms, of the records of the divergences, by number; empty if no line is
    damaged."""
    records = {one.seq for one in result.divergences} if result.damaged_parts else set()
    if not records:
        return {}
    wanted = EventFilter(first_seq=min(records), last_seq=max(records))
    return {
        record.seq: record.wall_ns // _NS
        for record in reader.events(wanted)
        if record.seq in records
    }


def lost_replies(
    reader: LogReader,
    settings: Mapping[str, str] | None = None,
    progress: Progress = unreported,
    begin: Assumptions = NO_ASSUMPTIONS,
) -> Choices:
    """Find the writes whose replies were lost, under the assumptions `begin`.

    Raises ReplayError, LogError.
    """
    if not may_have_lost_replies(reader):
        return Choices(begin)

    def find() -> frozenset[int]:
        compare = _comparison(
            reader, "", "kafka", settings, progress, BrokersWithLogs(set(), set())
        )
        found = search(compare, (LostReply(),), reader.last_seq, begin)
        return found.choices.assumptions.lost_replies

    # Other settings and assumptions can lead to other replies.
    is_usual = not settings and begin == NO_ASSUMPTIONS
    zxids = stored_or_found(reader, find) if is_usual else find()
    return Choices(structs.replace(begin, lost_replies=zxids))


def _comparison(
    reader: LogReader,
    source: str,
    rules: Rules,
    settings: Mapping[str, str] | None,
    progress: Progress,
    brokers: BrokersWithLogs,
) -> Compare:
    """`brokers` becomes the brokers with a log of each kind."""
    tried = count(1)
    last = reader.last_seq
    decoded: dict[int, Sequence[ImportedRecord] | None] = {}

    def with_records(log: ImportedLog) -> ImportedLog:
        if log.first_seq not in decoded:
            decoded[log.first_seq] = _decoded_records(log)
        return structs.replace(log, decoded=decoded[log.first_seq])

    def compare(choices: Choices) -> AgreementResult:
        result = AgreementResult(source=source)
        what = f"trying order {next(tried)}" if choices.has_moments else "comparing"
        for log in map(with_records, gap_free_ranges(reader)):
            checker = conformance_checker_of(log, last, rules, settings, progress, replies=choices)
            brokers.request_log.update(checker.index.request_logs_of)
            brokers.state_change_log.update(of for of, _ in checker.index.state_changes_of)
            agreement = checker.run(read_records(log, what, last, progress))
            of_range = result_of(agreement, result.source)
            of_range.settings = checker.settings
            of_range.notes += [one for one in checker.notes if one not in result.notes]
            result.add_range(of_range)
        return result

    return compare


def _decoded_records(log: ImportedLog) -> Sequence[ImportedRecord] | None:
    """The records of a range; None if they are too large to be kept."""
    found = []
    size = 0
    for record, event in log.events():
        size += len(record.payload)
        if size > _DECODED_BYTES_MAX:
            return None
        found.append((record, event))
    return found


def conformance_checker_of(
    imported: ImportedLog,
    last: int,
    rules: Rules,
    settings: Mapping[str, str] | None,
    progress: Progress,
    follow: Follow | None = None,
    replies: Choices | None = None,
) -> ConformanceChecker:
    """A checker of a range that has built its index and is ready to run.

    `follow` is called with each session that takes part in an election, before its fold begins.
    `replies` is the result of `lost_replies`. Raises ReplayError, LogError.
    """
    chroot = imported.begun.chroot
    view = ZnodeView(imported.state.tree, chroot)
    index = BrokerLogIndex(
        read_records(imported, "building the index", last, progress), chroot, view
    )
    given = dict(settings or {})
    configuration = configuration_of(given, rules)
    return ConformanceChecker(imported.state, chroot, configuration, index, given, follow, replies)


def read_records(
    imported: ImportedLog, what: str, last: int, progress: Progress
) -> Iterator[ImportedRecord]:
    """The records of a range, reporting progress."""
    for record, event in imported.events():
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
"""The broker settings that a controller's decisions depend on, by Kafka's names."""

_TYPES: Final = {one.name: one.type for one in structs.fields(Configuration)}


def configuration_of(settings: Mapping[str, str], rules: Rules) -> Configuration:
    """The settings of a stock broker that decisions depend on. Raises ReplayError."""
    for key in settings:
        if key not in _SETTINGS:
            raise ReplayError(
                f"{key} does not affect decisions; use one of: {', '.join(_SETTINGS)}"
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
            f"the brokers' settings cannot be used: {key}={text}: the value must be {what}"
        ) from None
