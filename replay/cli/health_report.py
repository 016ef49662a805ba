"""The report of `refold health`: the summary and the tables that people read, and `--json`."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct
from rich.table import Table
from rich.text import Text

from controller.core.values import counted
from controller.operator.topic_probe import ProbeRecord
from replay.cli.health_sources import ClusterReading
from replay.cluster_view.views import NO_BROKER, ClusterView
from replay.description.phrases import broker_list, enumeration, first_few
from replay.health.evaluate import WORST_FIRST, Health, PartitionHealth, State, TopicHealth
from replay.names import broker_name, controller_name, partition_name
from replay.why.daemon_terms import since_when_unknown

_MIN_ISR_UNKNOWN: Final = (
    "min.insync.replicas is not known for {topics}: {why}; give it with --min-insync-replicas"
)
_NOT_IN_LOG: Final = "the log does not have the brokers' own setting"
_CONFIGS_UNKNOWN: Final = (
    "{why}: of {topics}, one with a larger min.insync.replicas may be under-min-isr without being"
    " listed; --zookeeper reads them"
)
_NOT_PROBED: Final = (
    "{brokers}: not registered, so the address is not known, and the command cannot see whether "
    "the process still runs; --bootstrap-server HOST:PORT,... probes it"
)
_NO_ANSWER: Final = "no broker has reported its own setting (--config for TLS and SASL)"
_COLOURS: Final = {
    State.OFFLINE: "bold red",
    State.UNDER_MIN_ISR: "red",
    State.LATER_EPOCH: "red",
    State.STUCK: "red",
    State.UNDER_REPLICATED: "yellow",
}


class HealthReport(Struct, frozen=True):
    """The health of a cluster, as `--json` prints it.

    `source` is the log or the ZooKeeper; `seq` the event number in a log. `controller` is -1 for
    none; `is_kraft`: it is a KRaft controller. `problem` is what the controller could not do; ""
    for nothing. `partitions` are those that are shown, `well` and `total` count all of them.
    `probe` has the records of --probe.
    """

    source: str
    seq: int | None
    time: str
    controller: int
    controller_epoch: int
    is_kraft: bool
    problem: str
    notes: list[str]
    worst: State | None
    well: int
    total: int
    counts: Mapping[State, int]
    topics: list[TopicHealth]
    partitions: list[PartitionHealth]
    probe: list[ProbeRecord]


class PartitionSelection(Struct, frozen=True):
    """Which partitions a report lists: at most `limit` (0: all), and also those that are well if
    it is about chosen topics."""

    of_topics: bool
    limit: int

    def select(self, found: Health) -> list[PartitionHealth]:
        """The partitions to list, worst first."""
        listed = [one for one in found.partitions if self.of_topics or one.states]
        return listed[: self.limit or None]


def report_of(
    moment: ClusterReading,
    cluster: ClusterView,
    found: Health,
    selection: PartitionSelection,
    probe: list[ProbeRecord],
) -> HealthReport:
    """The report about a moment: about the part of its cluster that is wanted."""
    return HealthReport(
        moment.source,
        cluster.seq or None,
        cluster.time,
        cluster.controller.broker,
        cluster.controller.epoch,
        cluster.controller.is_kraft,
        moment.problem,
        [*_notes(moment, cluster, found)],
        found.worst,
        found.well_count,
        len(found.partitions),
        found.counts,
        found.topics,
        selection.select(found),
        probe,
    )


def _notes(moment: ClusterReading, cluster: ClusterView, found: Health) -> Iterator[str]:
    """The limits of the report, with the topics."""
    if moment.ended_by:
        yield since_when_unknown(moment.ended_by)
    if moment.without_address:
        names = [broker_name(one) for one in moment.without_address]
        yield _NOT_PROBED.format(brokers=first_few(names, ", "))
    is_unknown = {one.topic for one in found.partitions if one.min_insync_replicas is None}
    if is_unknown:
        is_live = moment.brokers or not cluster.seq
        why = _NO_ANSWER if is_live else moment.configs_unknown or _NOT_IN_LOG
        yield _MIN_ISR_UNKNOWN.format(topics=_topics(is_unknown), why=why)
    known = {one.name for one in cluster.topics} - is_unknown
    if known and moment.configs_unknown:
        yield _CONFIGS_UNKNOWN.format(why=moment.configs_unknown, topics=_topics(known))


def _topics(names: Collection[str]) -> str:
    return f"{counted(len(names), 'topic')} ({first_few(sorted(names), ', ')})"


def lines_of(report: HealthReport) -> Iterator[str]:
    """The summary, in sentences."""
    if report.problem:
        yield report.problem
    moment = f"after event {report.seq}, {report.time}" if report.seq is not None else report.time
    holder = "none"
    if report.controller != NO_BROKER:
        name = controller_name(report.controller, is_kraft=report.is_kraft)
        holder = f"{name}, epoch {report.controller_epoch}"
    yield f"{report.source}, {moment}; controller: {holder}"
    counts = [f"{report.counts[one]} {one}" for one in WORST_FIRST if report.counts[one]]
    wrong = f": {', '.join(counts)}" if counts else ""
    yield f"{report.well} of {counted(report.total, 'partition')} well{wrong}"
    yield from (f"note: {one}" for one in report.notes)


def topic_line(topic: TopicHealth) -> str:
    """The size of a topic, in a sentence."""
    factors = enumeration(map(str, topic.replication_factors)) or "none"
    return (
        f"topic {topic.topic}: {counted(topic.partitions, 'partition')}, replication factor "
        f"{factors}"
    )


def probe_lines(report: HealthReport) -> Iterator[str]:
    """The records of --probe, in sentences."""
    for one in report.probe:
        if one.offset < 0:
            where = f"partition {one.partition}: " if one.partition >= 0 else ""
            yield f"probe: {where}{one.fault}"
            continue
        read = one.fault or f"read back in {one.read_ms} ms"
        place = f"partition {one.partition}, offset {one.offset}"
        yield f"probe: a record was written to {place} in {one.written_ms} ms; {read}"


def table_of(report: HealthReport) -> Table:
    """The partitions, worst first."""
    table = Table("partition", "state", "leader", "ISR", "replicas", "missing replicas")
    for one in report.partitions:
        state = Text(
            ", ".join(one.states) or "well", _COLOURS.get(one.worst or State.NOT_PREFERRED, "")
        )
        missing = [f"{broker}: {why}, in the ISR" for broker, why in one.waits_for.items()]
        missing += [f"{broker}: {why}" for broker, why in one.missing.items()]
        leader = "none" if one.leader == NO_BROKER else str(one.leader)
        if one.leader_is_lost:
            leader += " (not registered)"
        name = partition_name(one.topic, one.partition)
        table.add_row(
            Text(name),
            state,
            leader,
            broker_list(one.isr),
            broker_list(one.replicas),
            Text("; ".join(missing)),
        )
    return table


def unlisted_note(report: HealthReport, selection: PartitionSelection) -> str:
    """A sentence about partitions that are not listed because of the limit; "" for none."""
    wanted = report.total if selection.of_topics else report.total - report.well
    left = wanted - len(report.partitions)
    return f"... and {counted(left, 'other partition')}; --limit 0 shows all" if left else ""
