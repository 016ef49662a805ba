"""The scenario and the inputs that continue an incident from one of its events.

The simulated cluster begins with the znodes of that moment. Its brokers register and a controller
takes the role before `START_MS`; then the causes follow at their times.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.znodes.topics import TopicContent, write_topic
from replay.logs.older_events import SETTINGS_OF_THIS_VERSION
from replay.names import broker_name
from replay.what_if.causes import (
    ENDED_BEFORE_MS,
    JOINS_MS,
    BrokerBounced,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerGone,
    CopyingReplica,
    ExternalCause,
    ReplicaLagged,
)
from replay.what_if.history import ClusterAtEvent, PartitionSnapshot, cluster_state_at
from replay.what_if.incident import Incident
from replay.world.inputs import (
    SAME,
    CrashBroker,
    DeleteControllerZnode,
    ElectLeaders,
    ExpireSession,
    FailLogDirectory,
    Input,
    KillController,
    StopBroker,
)
from replay.world.scenario import (
    BrokerSpec,
    ControllerSpec,
    Load,
    Scenario,
    SlowReplica,
    TopicSpec,
    protocol_of,
)

START_MS: Final = 4_000
"""When the continuation begins in a run: before, brokers register and a controller is elected."""

LAG_MS: Final = 10_000
"""replica.lag.time.max.ms, unless it is set: a log does not have it."""
SESSION_MS: Final = 6_000
"""zookeeper.session.timeout.ms of brokers, unless it is set."""

_SHUTDOWN_BACKOFF_MS: Final = 200
"""controlled.shutdown.retry.backoff.ms, unless it is set: a shutdown takes as long as in the log,
however often the broker asked the controller."""

_CONTROLLER_STARTS_MS: Final = 1_300
_DISKS_FAIL_MS: Final = 3_500
REGISTERS_AFTER_MS: Final = 1_000
"""How long the process of a broker runs before it registers (BrokerSettings.start_us)."""
BOUNCED_AFTER_MS: Final = 900
"""How long before a cause shows that a broker ended and registered again its process ended."""
_RATE_MIN: Final = 10
_RATE_MAX: Final = 100
"""Records a second. A partition needs one within `LAG_MS`, or a slow follower stays in its ISR."""


class Continuation(Struct, frozen=True):
    """The data to continue an incident from one moment, as plain values for a worker.

    `scenario` has no inputs yet: `inputs_of` makes them from `causes`, those after the moment. The
    moment `at_ms` of the incident is `begin_ms` in a run. No input is earlier than `first_ms`.
    `down` are the brokers that do not run at first; `stopping` those that shut down then.
    """

    seq: int
    at_ms: int
    scenario: Scenario
    causes: tuple[ExternalCause, ...]
    copying: tuple[CopyingReplica, ...] = ()
    down: tuple[int, ...] = ()
    stopping: tuple[BrokerUnregistered, ...] = ()
    failed: tuple[FailLogDirectory, ...] = ()
    begin_ms: int = START_MS
    first_ms: int = START_MS

    @property
    def shift_ms(self) -> int:
        """The milliseconds that are added to times of the incident to get times of the
        simulation."""
        return self.begin_ms - self.at_ms


class SettingOverrides(Struct, frozen=True):
    """The values that replace settings of the incident: of the controller, of brokers, and of
    topics, by topic and key."""

    configuration: Configuration
    brokers: Mapping[str, str] = {}
    topics: Mapping[str, Mapping[str, str]] = {}


def continuation_after(
    incident: Incident,
    seq: int,
    causes: Sequence[ExternalCause],
    settings: SettingOverrides,
    end_ms: int,
) -> Continuation:
    """Continue an incident after event `seq` up to `end_ms`. `causes` are all of the incident, with
    the changes."""
    if incident.scenario is not None:
        return _repeated_incident(incident, incident.scenario, seq, causes, settings, end_ms)
    cluster = cluster_state_at(incident.history.changes, seq, incident.times[seq])
    brokers = incident.brokers
    after = [one for one in causes if one.seq > seq]
    after += [
        structs.replace(one, is_certain=True) for one in causes if incident.is_in_progress(one, seq)
    ]
    # A shutdown that was requested before, and that had not ended.
    stopping = [
        one.what
        for one in causes
        if isinstance(one.what, BrokerUnregistered) and one.seq <= seq < one.what.gone_seq
    ]
    failed = [
        structs.replace(one.what, at_ms=_DISKS_FAIL_MS)
        for one in causes
        if isinstance(one.what, FailLogDirectory) and one.seq <= seq
        if one.what.survives_restart or not _has_restarted(causes, one.what.broker, one.seq, seq)
    ]
    copying = [
        one
        for one in incident.copying
        if (one.until_ms is None or one.until_ms > cluster.at_ms)
        and (one.after <= seq or any(cause.seq == one.after for cause in after))
    ]
    copying += [
        CopyingReplica(
            one.what.broker, one.what.topic, one.what.partition, one.at_ms, one.what.until_ms
        )
        for one in causes
        if isinstance(one.what, ReplicaLagged)
        and one.seq <= seq
        and (one.what.until_ms is None or one.what.until_ms > cluster.at_ms)
    ]
    return Continuation(
        seq,
        cluster.at_ms,
        _scenario(incident, cluster, settings, end_ms),
        tuple(after),
        tuple(copying),
        tuple(one for one in brokers if one not in cluster.brokers),
        tuple(stopping),
        tuple(failed),
    )


def certain_until(continuation: Continuation, seq: int, at_ms: int) -> Continuation:
    """Return the continuation with everything up to event `seq`, which happened at `at_ms`, in
    every future. A cause that a change delays beyond this moment remains uncertain."""
    causes = [
        structs.replace(one, is_certain=True) if one.seq <= seq and one.at_ms <= at_ms else one
        for one in continuation.causes
    ]
    return structs.replace(continuation, causes=tuple(causes))


def _repeated_incident(
    incident: Incident,
    scenario: Scenario,
    seq: int,
    causes: Sequence[ExternalCause],
    settings: SettingOverrides,
    end_ms: int,
) -> Continuation:
    """A simulated incident is run again from its beginning, with all that happened up to event
    `seq`."""
    all_of_them = [
        one if one.seq > seq else structs.replace(one, is_certain=True) for one in causes
    ]
    controllers = tuple(
        structs.replace(one, configuration=settings.configuration)
        if one.process == incident.process and settings.configuration != incident.configuration
        else one
        for one in scenario.controllers
    )
    topics = tuple(
        structs.replace(one, configs={**one.configs, **settings.topics.get(one.name, {})})
        for one in scenario.topics
    )
    active_ms = min(scenario.active_ms, end_ms)
    repeated = structs.replace(
        scenario,
        controllers=controllers,
        topics=topics,
        broker_settings={**scenario.broker_settings, **settings.brokers},
        active_ms=active_ms,
        quiet_ms=end_ms - active_ms,
    )
    at_ms = incident.times[seq]
    return Continuation(seq, at_ms, repeated, tuple(all_of_them), begin_ms=at_ms, first_ms=0)


def _has_restarted(causes: Iterable[ExternalCause], broker: int, first: int, last: int) -> bool:
    return any(
        isinstance(one.what, BrokerRegistered | BrokerBounced)
        and one.what.broker == broker
        and first < one.seq <= last
        for one in causes
    )


def _scenario(
    incident: Incident, cluster: ClusterAtEvent, settings: SettingOverrides, end_ms: int
) -> Scenario:
    topics = _topics(cluster)
    configuration = structs.replace(
        settings.configuration,
        is_broker=False,
        take_over=False,
        standby=False,
        waits_for_own_znode=False,
        endpoints=(),
        authorization=None,  # Simulated brokers and clients have no principals.
        **SETTINGS_OF_THIS_VERSION,
    )
    rate = max(_RATE_MIN, min(_RATE_MAX, len(cluster.partitions) // 8))
    return Scenario(
        name="what-if",
        protocol=protocol_of(configuration),
        brokers=tuple(BrokerSpec(one) for one in incident.brokers),
        broker_settings={
            "replica.lag.time.max.ms": str(LAG_MS),
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "controlled.shutdown.retry.backoff.ms": str(_SHUTDOWN_BACKOFF_MS),
            **settings.brokers,
        },
        topics=topics,
        znodes=_znodes(cluster, settings),
        controllers=(ControllerSpec(configuration, starts_after_ms=_CONTROLLER_STARTS_MS),),
        load=Load(records_per_second=rate, consumers=0),
        active_ms=max(START_MS + 1, end_ms - cluster.at_ms + START_MS),
        quiet_ms=0,
    )


def _topics(cluster: ClusterAtEvent) -> tuple[TopicSpec, ...]:
    """The topics that clients use: those whose partitions are numbered without gaps."""
    replicas: dict[str, dict[int, tuple[int, ...]]] = {}
    for (topic, number), now in cluster.partitions.items():
        replicas.setdefault(topic, {})[number] = now.assignment.replicas
    return tuple(
        TopicSpec(topic, tuple(of[number] for number in sorted(of)))
        for topic, of in replicas.items()
        if sorted(of) == list(range(len(of)))
    )


def _znodes(cluster: ClusterAtEvent, settings: SettingOverrides) -> dict[str, str]:
    found = {path: data.decode(errors="replace") for path, data in cluster.znodes.items()}
    assignments: dict[str, dict[int, PartitionSnapshot]] = {}
    for (topic, number), now in cluster.partitions.items():
        assignments.setdefault(topic, {})[number] = now
        if now.state is not None:
            found[znodes.state_path(topic, number)] = znodes.write_state(now.state).decode()
    for topic, of in assignments.items():
        content = {number: of[number].assignment for number in sorted(of)}
        id = cluster.topics.get(topic)
        found[znodes.topic_path(topic)] = write_topic(TopicContent(content, id)).decode()
    for topic, configs in settings.topics.items():
        path = znodes.topic_config_path(topic)
        known = znodes.read_config(path, found[path].encode()) if path in found else {}
        found[path] = znodes.write_config({**known, **configs}).decode()
    # A controller begins above the epochs in the states (KB 5.2).
    epochs = [one.state.controller_epoch for one in cluster.partitions.values() if one.state]
    epoch = max([*epochs, int(found.get(znodes.CONTROLLER_EPOCH) or 0)])
    found[znodes.CONTROLLER_EPOCH] = str(epoch)
    return found


def inputs_of(continuation: Continuation, causes: Sequence[ExternalCause]) -> tuple[Input, ...]:
    """The inputs of a run that continues an incident with these causes, which may be varied ones of
    `begun.causes`, in the order of their times."""
    made = _Inputs(continuation)
    for cause in sorted(causes, key=lambda one: one.at_ms):
        made.add(cause)
    return tuple(sorted(made.inputs, key=lambda one: one.at_ms))


class _Inputs:
    """The inputs so far. A broker that runs can end, and one that is down can start."""

    def __init__(self, continuation: Continuation) -> None:
        self._continuation = continuation
        self._down: dict[int, int] = {}
        self.inputs: list[Input] = [*continuation.failed]
        for broker in continuation.down:
            self._end(CrashBroker(0, broker, False, None))
        for one in continuation.stopping:
            self._end(self._shutdown(_DISKS_FAIL_MS, one))

    def add(self, cause: ExternalCause) -> None:
        """Add what a cause needs."""
        at_ms = max(self._continuation.first_ms, cause.at_ms + self._continuation.shift_ms)
        match cause.what:
            case BrokerUnregistered(broker=broker) as gone:
                if broker not in self._down:
                    self._gone(at_ms, gone, cause)
            case BrokerRegistered(broker=broker):
                self._back(at_ms, broker)
            case BrokerBounced(broker=broker):
                if broker not in self._down:
                    self.inputs.append(CrashBroker(at_ms - BOUNCED_AFTER_MS, broker, False, 0))
                    self.inputs.append(ExpireSession(at_ms - 500, broker_name(broker)))
            case ControllerGone(process=process, absent_ms=absent_ms) as gone:
                begin_ms = max(self._continuation.first_ms, at_ms - gone.failed_ms)
                restart_ms = absent_ms + at_ms - begin_ms
                self.inputs.append(KillController(begin_ms, process, SAME, restart_ms))
                if gone.is_deletion:
                    self.inputs.append(DeleteControllerZnode(at_ms))
                else:
                    self.inputs.append(ExpireSession(at_ms, process))
            case CrashBroker() | StopBroker() as end:
                if end.broker not in self._down:
                    self._end(structs.replace(end, at_ms=at_ms))
            case ReplicaLagged():
                return
            case one:
                self.inputs.append(structs.replace(one, at_ms=at_ms))

    def _end(self, one: CrashBroker | StopBroker) -> None:
        self._down[one.broker] = len(self.inputs)
        self.inputs.append(one)

    def _gone(self, at_ms: int, gone: BrokerUnregistered, cause: ExternalCause) -> None:
        if gone.is_controlled:
            self._end(self._shutdown(at_ms, gone))
            return
        crash_ms = max(self._continuation.first_ms - 1_000, at_ms - ENDED_BEFORE_MS, 0)
        self._end(CrashBroker(crash_ms, gone.broker, False, None))
        self.inputs.append(ExpireSession(at_ms, broker_name(gone.broker)))

    def _shutdown(self, at_ms: int, gone: BrokerUnregistered) -> StopBroker:
        """A controlled shutdown that takes as long as in the log."""
        gone_ms = gone.gone_ms + self._continuation.shift_ms
        return StopBroker(at_ms, gone.broker, None, lasts_ms=max(0, gone_ms - at_ms))

    def _back(self, at_ms: int, broker: int) -> None:
        place = self._down.pop(broker, None)
        if place is None:
            return
        ended = self.inputs[place]
        assert isinstance(ended, CrashBroker | StopBroker)
        ended_ms = ended.at_ms
        if isinstance(ended, StopBroker):
            ended_ms += ended.lasts_ms
        after_ms = max(0, at_ms - REGISTERS_AFTER_MS - ended_ms)
        self.inputs[place] = structs.replace(ended, restart_after_ms=after_ms)


def slow_replicas(
    continuation: Continuation, causes: Sequence[ExternalCause]
) -> tuple[SlowReplica, ...]:
    """The followers that copy nothing for some time in a run with these causes."""
    shift_ms = continuation.shift_ms
    found: list[SlowReplica] = []
    applied = {one.seq for one in causes}
    for one in continuation.copying:
        if one.after <= continuation.seq or one.after in applied:
            begin = 0 if one.from_ms <= continuation.at_ms else one.from_ms + shift_ms
            end = None if one.until_ms is None else one.until_ms + shift_ms - JOINS_MS
            found.append(SlowReplica(one.broker, one.topic, one.partition, begin, end))
    lag_ms = int(continuation.scenario.broker_settings.get("replica.lag.time.max.ms", LAG_MS))
    for cause in causes:
        if isinstance(cause.what, ReplicaLagged):
            lag, at_ms = cause.what, cause.at_ms + shift_ms
            end = None if lag.until_ms is None else lag.until_ms + shift_ms - JOINS_MS
            begin = max(0, at_ms - lag_ms * 5 // 4)
            found.append(SlowReplica(lag.broker, lag.topic, lag.partition, begin, end))
    return tuple(found)


def scenario_with(continuation: Continuation, causes: Sequence[ExternalCause]) -> Scenario:
    """The scenario of a run with these causes."""
    slow = (*continuation.scenario.slow_replicas, *slow_replicas(continuation, causes))
    return structs.replace(continuation.scenario, slow_replicas=slow)


def rebalance_inputs(incident: Incident, seq: int) -> list[ExternalCause]:
    """The automatic leader rebalances of a log after an event, as elections at their times."""
    return [
        ExternalCause(one, incident.times[one], ElectLeaders(incident.times[one]), is_certain=True)
        for one in incident.rebalances
        if one > seq and one in incident.times
    ]
