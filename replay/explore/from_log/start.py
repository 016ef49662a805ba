"""The cluster at the start of an incident, as a scenario: its znodes, brokers and controllers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs

from controller.core import znodes
from controller.core.configuration import Configuration
from replay.logs.older_events import SETTINGS_OF_THIS_VERSION
from replay.parsed_znodes import controller_epoch_of_state, parsed_epoch, parsed_topic
from replay.subjects import subject_of
from replay.world.processes import refold_name, stock_name
from replay.world.scenario import (
    BrokerSpec,
    ControllerSpec,
    Load,
    Scenario,
    TopicSpec,
    protocol_of,
)

START_MS: Final = 4_000
"""When the incident begins: the simulated cluster needs some seconds to start."""

_MOVED_MS: Final = 5_000
"""A variation moves inputs by less than this, and they must take place in the active part."""
_QUIET_MS: Final = 90_000
_TOPICS_MAX: Final = 12
_PARTITIONS_MAX: Final = 60
_CONTROLLERS_MAX: Final = 3
_STEP_MS: Final = 500

_OF_CLUSTER: Final = (
    znodes.REASSIGN_PARTITIONS,
    znodes.REASSIGN_PARTITIONS_EXTRA,
    znodes.REASSIGN_CANCEL,
    znodes.PREFERRED_ELECTION,
    znodes.FEATURE,
    znodes.broker_config_path(None),
)

_SEQUENTIAL: Final = (znodes.REQUEST_PREFIX, znodes.DELETION_PREFIX)
"""Prefixes of znodes that ZooKeeper numbers. The scenario numbers them from 0, as a new ZooKeeper
does: otherwise its next number could be that of one of them."""


class Controllers:
    """The controllers of the scenario: that of the log, and others that had the role."""

    def __init__(self, configuration: Configuration) -> None:
        self.notes: list[str] = []
        self.has_predecessor = False
        """Whether another controller has the role at the start."""
        self._configuration = structs.replace(
            configuration,
            is_broker=False,
            rules="refold",
            take_over=False,
            **SETTINGS_OF_THIS_VERSION,
        )
        self._others: dict[int, None] = {}

    def seen(self, id: int) -> None:
        """A controller has had the role."""
        if id != self._configuration.broker_id and id >= 0:
            self._others[id] = None

    def process(self, id: int, brokers: Sequence[int]) -> str:
        """The process of a controller in the scenario."""
        return stock_name(id) if id in brokers else refold_name(id)

    @property
    def protocol(self) -> str:
        """The protocol version of the scenario."""
        return protocol_of(self._configuration)

    def specs(self, brokers: Sequence[int]) -> tuple[ControllerSpec, ...]:
        """The controllers. If there is no other refold, a standby is added: otherwise a crash of
        the controller would have no successor."""
        own = ControllerSpec(self._configuration)
        others = list(self._others)[: _CONTROLLERS_MAX - 1]
        if len(others) < len(self._others):
            self.notes.append(f"controllers that were left out: {len(self._others) - len(others)}")
        specs = [self._other_controller(id, number, brokers) for number, id in enumerate(others)]
        if self.has_predecessor and specs:
            own = structs.replace(own, starts_after_ms=len(specs) * 2 * _STEP_MS)
        if specs:
            names = ", ".join(one.process for one in specs)
            self.notes.append(f"controllers besides {own.process}, as in the log: {names}")
        if all(one.configuration.is_broker for one in specs):
            standby = self._standby([own.configuration.broker_id, *brokers, *others])
            self.notes.append(
                f"{standby.process} was added as a standby: a crash of {own.process} needs a"
                " successor"
            )
            specs.append(standby)
        return (own, *specs)

    def _other_controller(self, id: int, number: int, brokers: Sequence[int]) -> ControllerSpec:
        after_ms = number * _STEP_MS
        if id not in brokers:
            other = structs.replace(self._configuration, broker_id=id)
            after_ms += 0 if self.has_predecessor else _STEP_MS
            return ControllerSpec(other, starts_after_ms=after_ms)
        stock = Configuration(broker_id=id, is_broker=True, rules="kafka")
        return ControllerSpec(stock, runs=self.has_predecessor, starts_after_ms=after_ms)

    def _standby(self, used: Sequence[int]) -> ControllerSpec:
        id = self._configuration.broker_id + 1
        while id in used:
            id += 1
        configuration = structs.replace(self._configuration, broker_id=id, standby=True)
        return ControllerSpec(configuration, starts_after_ms=3 * _STEP_MS)


class ClusterAtStart:
    """Znodes by path, and the brokers that were registered or will be. `notes`: what was left
    out."""

    def __init__(self, content: Mapping[str, bytes], brokers: Sequence[int]) -> None:
        self.notes: list[str] = []
        self._content = content
        self._brokers = dict.fromkeys(brokers)

    def scenario(self, controllers: Controllers, last_ms: int, session_ms: int) -> Scenario:
        """The scenario of an incident whose last input is at `last_ms`."""
        topics = self._topics()
        content = dict(self._znodes({topic.name: None for topic in topics}))
        epochs = [controller_epoch_of_state(path, data.encode()) for path, data in content.items()]
        epoch = max([*epochs, self._epoch()])
        if epoch:
            # Otherwise the controllers would begin below the epochs in these states, and refuse
            # to change them (KB 5.2).
            content[znodes.CONTROLLER_EPOCH] = str(epoch)
        return Scenario(
            name="from a log",
            protocol=controllers.protocol,
            brokers=tuple(BrokerSpec(one) for one in sorted(self._brokers)),
            broker_settings={
                "replica.lag.time.max.ms": "10000",
                "zookeeper.session.timeout.ms": str(session_ms),
            },
            topics=topics,
            znodes=content,
            controllers=controllers.specs(sorted(self._brokers)),
            load=Load(),
            active_ms=last_ms + _MOVED_MS + 1,
            quiet_ms=_QUIET_MS,
        )

    def _znodes(self, topics: Mapping[str, None]) -> Iterator[tuple[str, str]]:
        numbers = dict.fromkeys(_SEQUENTIAL, 0)
        for path in sorted(self._content):
            data = self._content[path]
            if not _is_text(data):
                continue
            prefix = next((one for one in _SEQUENTIAL if path.startswith(one)), None)
            if prefix is not None:
                yield f"{prefix}{numbers[prefix]:010}", data.decode()
                numbers[prefix] += 1
                continue
            is_deletion = path.startswith(f"{znodes.REPLICA_DELETIONS}/")
            subject = subject_of(path)
            is_of_broker = subject.kind == "broker config" and subject.broker in self._brokers
            if subject.topic in topics or path in _OF_CLUSTER or is_of_broker or is_deletion:
                yield path, data.decode()

    def _epoch(self) -> int:
        """The controller epoch at the start; 0: unknown."""
        return parsed_epoch(self._content.get(znodes.CONTROLLER_EPOCH)) or 0

    def _topics(self) -> tuple[TopicSpec, ...]:
        found: list[TopicSpec] = []
        partitions = left_out = 0
        for path, data in self._content.items():
            name = znodes.topic_of(path)
            if name is None:
                continue
            content = parsed_topic(name, data)
            if content is None:
                continue
            replicas = tuple(one.replicas for one in content.assignments.values())
            is_usable = list(content.assignments) == list(range(len(replicas))) and all(replicas)
            partitions += len(replicas)
            if not is_usable or len(found) >= _TOPICS_MAX or partitions > _PARTITIONS_MAX:
                left_out += 1
                continue
            for one in replicas:
                self._brokers.update(dict.fromkeys(one))
            found.append(TopicSpec(name, replicas))
        if left_out:
            self.notes.append(f"topics: {len(found)} are explored, {left_out} left out")
        return tuple(found)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
