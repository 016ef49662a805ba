"""Reads from a log of the daemon what its fold and the znodes show: what tools wrote, what failed,
and who else had the role.

A standby follows the cluster before it takes over. Its incident begins when it has read everything
for the first time.
"""

from contextlib import suppress
from typing import Final

from msgspec import structs

from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.commands import Issued
from controller.core.errors import ZnodeError
from controller.core.events import (
    Recorded,
    ShutdownRequested,
    WatchFired,
)
from controller.core.state import ControllerContext
from replay.explore.from_log.recorded import TOPIC_AND_BROKER_CONFIGS, RecordedIncident
from replay.explore.from_log.schedule import RunFromLog, Schedule
from replay.logs.decode import records
from replay.logs.open_log import RecordedLog
from replay.parsed_znodes import parsed_config, parsed_topic
from replay.subjects import subject_of
from replay.world.inputs import (
    ChangeBrokerConfig,
    ChangeTopicConfig,
    CreatePartitions,
    CreateTopic,
    DeleteControllerZnode,
    DeleteStrays,
    DeleteTopic,
    KillController,
    StartController,
)

_TOGETHER_MS: Final = 1_000
"""A registration and the role of one session end within this time."""


def from_recorded(log: RecordedLog) -> RunFromLog:
    """The scenario and inputs of a log. Raises ReplayError if it has no failover."""
    incident = _ExploredRecording(log, Schedule(log.configuration))
    for event, _ in records(log.reader):
        incident.fold(event)
        if incident.schedule.is_full:
            break
    incident.check_begun()
    incident.count_unread()
    return incident.schedule.result()


class _ExploredRecording(RecordedIncident):
    def __init__(self, log: RecordedLog, schedule: Schedule) -> None:
        super().__init__(log, schedule)
        self._configuration = log.configuration
        self._holder: int | None = None
        """The controller that has the role, if it is another one."""
        self._is_following = False
        self._is_stopping = False
        self._vacant_ms = 0
        self._deletion: tuple[int, DeleteControllerZnode] | None = None
        """The last loss of a stock controller's role, with its broker."""
        self._partitions: dict[str, int] = {}
        """How many partitions each known topic has, or was requested to have."""
        self._configs: dict[str, bytes] = {}
        self._announced: dict[str, None] = {}
        """Configurations whose change was announced, and which were not read since."""
        self._deleting: dict[str, None] = {}
        self._strays: dict[str, None] = {}

    def fold(self, event: Recorded) -> list[Issued]:
        """Fold an event, and note what it and the fold show."""
        was_active = self.controller_fold.controller.is_active
        had_begun = self.has_begun
        issued = super().fold(event)
        if self.controller_fold.controller.is_active:
            self._holder = None
        if had_begun:
            self._note_shown(event, was_active=was_active)
        elif self._is_following:
            self._follow(event)
        elif self._configuration.standby and self._has_followed():
            self._begin_following(event)
        return issued

    def count_unread(self) -> None:
        """Count the changes of configurations that the log does not have."""
        for _ in self._announced:
            self.schedule.leave_out("changes of configurations that the controller did not read")

    # A standby

    def _has_followed(self) -> bool:
        """Whether a standby has read everything for the first time."""
        return self.controller_fold.is_idle and bool(self._registered())

    def _registered(self) -> list[int]:
        """The brokers whose registrations were read."""
        found = [subject_of(path) for path in self.content]
        return [one.broker for one in found if one.kind == "broker" and one.broker is not None]

    def _begin_following(self, event: Recorded) -> None:
        self._is_following = self.notes_entries = True
        self.schedule.controllers.has_predecessor = self._holder is not None
        self.schedule.begin(event.wall_ns, self.content, self._registered())

    def _follow(self, event: Recorded) -> None:
        """Note what a watch of the standby shows."""
        observed, schedule = event.event, self.schedule
        if not isinstance(observed, WatchFired):
            return
        subject = subject_of(observed.path)
        if subject.kind == "broker" and subject.broker is not None:
            if observed.change == "deleted":
                self._broker_gone(event, subject.broker)
            elif observed.change == "created":
                schedule.broker_back(event.wall_ns, subject.broker)
            return
        at_ms = schedule.ms_of(event.wall_ns)
        self._note_change(at_ms, observed.path, observed.change)
        if observed.path == znodes.CONTROLLER and observed.change == "deleted":
            self._end_role(at_ms)

    def _broker_gone(self, event: Recorded, broker: int) -> None:
        """A crash. A stock controller in the broker has lost the role with it."""
        schedule, deletion = self.schedule, self._deletion
        if deletion is not None and deletion[0] == broker:
            at_ms = schedule.ms_of(event.wall_ns)
            if at_ms - deletion[1].at_ms <= _TOGETHER_MS and deletion[1] in schedule.inputs:
                schedule.inputs.remove(deletion[1])
        schedule.broker_gone(event.wall_ns, broker, is_controlled=False)

    # Controllers

    def _end_role(self, at_ms: int) -> None:
        """Another controller lost the role."""
        holder, self._holder = self._holder, None
        brokers = self.schedule.brokers
        self._vacant_ms = at_ms
        if holder is None or holder in brokers:
            deletion = DeleteControllerZnode(at_ms)
            self._deletion = (holder, deletion) if holder is not None else None
            self.schedule.add(deletion)
        else:
            process = self.schedule.controllers.process(holder, brokers)
            self.schedule.add(KillController(at_ms, process))

    def _note_holder(self, event: Recorded, data: bytes) -> None:
        found = znodes.read_controller(data)
        id = found.brokerid if found is not None else self._configuration.broker_id
        if id == self._configuration.broker_id or id == self._holder:
            return
        self._holder = id
        schedule = self.schedule
        schedule.controllers.seen(id)
        if self.has_begun:
            process = schedule.controllers.process(id, schedule.brokers)
            schedule.add(StartController(schedule.ms_of(event.wall_ns), process))

    # Znodes

    def _note_content(self, event: Recorded, path: str, data: bytes) -> None:
        inputs = self.schedule.inputs
        count = len(inputs)
        super()._note_content(event, path, data)
        if not self.has_begun:
            # What a failover finds was there before.
            inputs[count:] = [
                structs.replace(one, at_ms=min(one.at_ms, max(0, self._vacant_ms - 1)))
                for one in inputs[count:]
            ]
        topic = znodes.topic_of(path)
        if path == znodes.CONTROLLER:
            self._note_holder(event, data)
        elif topic is not None:
            self._note_topic(event, topic, data)
        elif path.startswith(TOPIC_AND_BROKER_CONFIGS):
            self._note_config(event, path, data)
        elif path.startswith(znodes.DELETION_PREFIX) and path not in self._strays:
            self._strays[path] = None
            with suppress(ZnodeError):
                deletion = znodes.read_deletion(path, data)
                if self.notes_entries:
                    at_ms = self.schedule.ms_of(event.wall_ns)
                    self.schedule.add(DeleteStrays(at_ms, deletion.broker, deletion.partitions))
        elif path.startswith(f"{znodes.CONFIG_CHANGES}/") and self.notes_entries:
            with suppress(ZnodeError):
                self._announce(znodes.read_config_change(path, data))

    def _note_topic(self, event: Recorded, topic: str, data: bytes) -> None:
        content = parsed_topic(topic, data)
        if content is None or not content.assignments:
            return
        replicas = tuple(one.origin for one in content.assignments.values())
        known = self._partitions.get(topic, 0)
        self._partitions[topic] = max(known, len(replicas))
        if not self.notes_entries or len(replicas) <= known:
            return
        at_ms, config_path = self.schedule.ms_of(event.wall_ns), znodes.topic_config_path(topic)
        if known:
            self.schedule.add(CreatePartitions(at_ms, topic, replicas[known:], "znode"))
            return
        self._announced.pop(config_path, None)
        configs = parsed_config(config_path, self._configs.get(config_path))
        self.schedule.add(CreateTopic(at_ms, topic, replicas, configs, "znode_with_id"))

    def _announce(self, entity: str) -> None:
        """A notification says that a configuration was changed."""
        path = znodes.config_path(entity)
        if path.startswith(TOPIC_AND_BROKER_CONFIGS):
            self._announced[path] = None
        else:
            self.schedule.leave_out("changes of quotas and users")

    def _note_config(self, event: Recorded, path: str, data: bytes) -> None:
        """A configuration was read: if it was announced or known, it has changed before."""
        is_announced = path in self._announced
        is_known = path in self._configs
        self._announced.pop(path, None)
        is_same = self._configs.get(path) == data
        self._configs[path] = data
        if not self.notes_entries or is_same or not (is_announced or is_known):
            return
        at_ms, subject = self.schedule.ms_of(event.wall_ns), subject_of(path)
        configs, broker = parsed_config(path, data), subject.broker
        if subject.topic is not None:
            if subject.topic in self._partitions:
                self.schedule.add(ChangeTopicConfig(at_ms, subject.topic, configs))
            return
        if broker is None or broker in self.schedule.brokers:
            self.schedule.add(ChangeBrokerConfig(at_ms, broker, configs))
        else:
            self.schedule.leave_out("changes of the controller's configuration")

    # Requests, and what the fold shows

    def _note(self, event: Recorded) -> None:
        super()._note(event)
        match event.event:
            case ShutdownRequested():
                self._is_stopping = True
            case CreateTopicsReceived(topics=topics):
                for topic in topics:
                    count = len(topic.assignments) or max(1, topic.partitions)
                    self._partitions.setdefault(topic.name, count)
            case CreatePartitionsReceived(topics=topics):
                for more in topics:
                    self._partitions[more.topic] = max(
                        more.count, self._partitions.get(more.topic, 0)
                    )
            case DeleteTopicsReceived(topics=topics):
                names = [one.name or self._name_of(one.topic_id) for one in topics]
                self._deleting.update(dict.fromkeys(one for one in names if one is not None))
            case _:
                pass
        if isinstance(event.event, ApiRequest) and self.controller_fold.controller.is_active:
            # Otherwise, the sender asks again.
            self.schedule.add_request(self.schedule.ms_of(event.wall_ns), event.event)

    def _begin(self, event: Recorded) -> None:
        for topic in self.controller_fold.controller.context.queued_for_deletion:
            self.content[znodes.delete_topic_path(topic)] = b""
            self._deleting[topic] = None
        super()._begin(event)

    def _note_shown(self, event: Recorded, *, was_active: bool) -> None:
        """Note what an event and the fold after it show."""
        schedule = self.schedule
        at_ms = schedule.ms_of(event.wall_ns)
        match event.event:
            case WatchFired(path=znodes.CONTROLLER, change="deleted"):
                if was_active and not self._is_stopping:
                    schedule.add(DeleteControllerZnode(at_ms))
                elif self._holder is not None:
                    self._end_role(at_ms)
            case _:
                pass
        if self.is_settled:
            self._note_context(at_ms, self.controller_fold.controller.context)

    def _note_context(self, at_ms: int, context: ControllerContext) -> None:
        schedule = self.schedule
        for topic in context.queued_for_deletion:
            if topic not in self._deleting:
                schedule.add(DeleteTopic(at_ms, topic, "znode"))
                self._deleting[topic] = None
        for topic in list(self._deleting):
            if topic not in context.topics:
                del self._deleting[topic]
                self._partitions.pop(topic, None)
        self.note_failed_disks(at_ms)
