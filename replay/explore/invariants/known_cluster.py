"""The cluster's state in ZooKeeper, parsed, and kept up to date by its transactions.

Every invariant reads it; each znode is parsed once for all of them.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from msgspec import structs

from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.configuration import Configuration
from controller.core.errors import ZnodeError
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, UNCLEAN, is_true
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import Name, ReplicaDeletion
from controller.core.znodes.schema import parse_natural
from replay.explore.invariants.losses import Losses
from replay.parsed_znodes import parsed_entries, parsed_request
from replay.world.processes import is_refold

BELOW_ADMIN: Final = f"{znodes.ADMIN}/"


class KnownTopic:
    """A topic's znode. By its `czxid` it differs from a deleted topic of the same name.

    `id`: the last one that was written; `has_id`: whether the znode has it now. `has_lost_id`: a
    tool removed its id, and a controller that did not know it drew another one (race R29). Nothing
    can repair such a topic. `by_tools`: the partitions whose assignment a tool has changed since a
    controller wrote it; the controller continues with the one that it knows.
    """

    __slots__ = ("assignments", "by_tools", "czxid", "has_id", "has_lost_id", "id", "name")

    def __init__(self, name: str, czxid: int) -> None:
        self.name = name
        self.czxid = czxid
        self.id: bytes | None = None
        self.has_id = False
        self.has_lost_id = False
        self.assignments: dict[int, Assignment] = {}
        self.by_tools: dict[int, None] = {}

    def assigned(self, number: int, before: Assignment | None, *, by_controller: bool) -> None:
        """The assignment of a partition was written."""
        self.by_tools.pop(number, None)
        if before is not None and not by_controller:
            self.by_tools[number] = None


class RequestedTargets:
    """The targets that were requested for a partition, the latest one last, and whether a
    cancellation was requested. `submitted`: how often a client requested a target."""

    __slots__ = ("is_cancelled", "submitted", "targets")

    def __init__(self) -> None:
        self.targets: list[tuple[int, ...]] = []
        self.submitted = 0
        self.is_cancelled = False

    def add(self, target: tuple[int, ...]) -> None:
        """A client requests this target. It becomes the last of `targets`."""
        if target in self.targets:
            self.targets.remove(target)
        self.targets.append(target)


class LeaderCandidates(NamedTuple):
    """The knowledge of a controller when it elects the leader of a partition: the orders in which
    its rules consider replicas, the replicas that may be online as far as it knows, and those that
    surely are."""

    orders: tuple[tuple[int, ...], ...]
    online: tuple[int, ...]
    surely_online: tuple[int, ...]


class ProcessQueries:
    """The facts about processes that invariants need; the monitor sets them."""

    def __init__(self) -> None:
        self.live_brokers_of: Callable[[str], Collection[int] | None] = lambda process: None
        """The brokers that a controller may know to be live and not shutting down."""
        self.surely_live_of: Callable[[str], Collection[int] | None] = lambda process: (
            self.live_brokers_of(process)
        )
        """The brokers that a controller must know to be live and not shutting down."""
        self.latest_live_of: Callable[[str], Collection[int] | None] = lambda process: (
            self.live_brokers_of(process)
        )
        """The brokers of the list that the controller has read last, which counts between two
        procedures."""
        self.children_known_to: Callable[[str, str], Collection[str] | None] = (
            lambda process, path: None
        )
        """The children of a path that a controller knows; None: it keeps no such list."""
        self.candidates_of: Callable[[str, Name], LeaderCandidates | None] = lambda process, name: (
            None
        )
        """The candidates to lead a partition; None: the controller does not know it."""
        self.shutting_down_of: Callable[[str], Collection[int]] = lambda process: ()
        """The brokers that a controller knows to be in controlled shutdown."""
        self.broker_epoch_known_to: Callable[[str, int], int | None] = lambda process, broker: None
        """The broker epoch of a broker as a controller knows it."""
        self.deletes_topics: Callable[[str], bool] = lambda process: True
        """Whether the configuration of a controller allows deletions of topics."""
        self.restores_order: Callable[[str], bool] = lambda process: True
        """Whether a process is a controller that restores the order of replicas."""
        self.keeps_partitions: Callable[[str], bool] = lambda process: True
        """Whether a process is a controller that keeps the partitions that a tool adds."""
        self.is_kafka: Callable[[str], bool] = lambda process: False
        """Whether a process is a controller with Kafka's rules."""
        self.cancel_known_to: Callable[[str], int] = lambda process: 0
        """The czxid of the /admin/reassign_cancel that a controller knows; 0: it knows none."""
        self.has_topic_ids: Callable[[str], bool] = lambda process: True
        """Whether the protocol version of a controller has topic ids."""
        self.knows_topic_id: Callable[[str, str], bool] = lambda process, topic: True
        """Whether a controller knows the id of a topic, or the process is no controller."""
        self.has_earlier_log: Callable[[int, Name], bool] = lambda broker, name: False
        """Whether the log of a replica is that of an earlier topic of the same name."""
        self.has_log: Callable[[int, Name], bool] = lambda broker, name: False
        """Whether a broker has a log of a partition, and not that of an earlier topic."""
        self.has_role: Callable[[str], bool] = lambda process: True
        """Whether a controller has the role, loaded or not."""
        self.has_kip_236: Callable[[], bool] = lambda: True
        """Whether the active controller follows the znodes of KIP-236."""
        self.active_process: Callable[[], str | None] = lambda: None
        """The controller that has the role; None: none."""


class KnownCluster(ProcessQueries):
    """The znodes that matter, parsed. Content that cannot be parsed counts as unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, KnownTopic] = {}
        self.states: dict[Name, LeaderAndIsr] = {}
        self.changed_by_tools: dict[Name, None] = {}
        """The partitions whose assignment a tool has changed, also those of deleted topics."""
        self.stopped_while_failed: dict[tuple[int, Name], None] = {}
        """The replicas that a broker has stopped although their log directory had failed before its
        start: it reports no error, and they are there again with the directory (KB 12.4.3)."""
        self.past_states: dict[Name, dict[LeaderAndIsr, None]] = {}
        """All states that partitions have had, of deleted topics too; `without_controller`."""
        self.brokers: dict[int, int] = {}
        """The registered brokers with their broker epochs."""
        self.broker_epochs: dict[int, dict[int, None]] = {}
        """All broker epochs that brokers have had."""
        self.unregistered_by_tools: dict[int, None] = {}
        """The brokers whose registration a tool has deleted; they do not register again."""
        self.controller: int | None = None
        self.epoch = 0
        self.admin: dict[str, bytes] = {}
        """The znodes under /admin that tools and the controller create and delete."""
        self.made_by_clients: dict[str, None] = {}
        """The znodes under /admin that a client has created, as tools do and, by mistake,
        operators."""
        self.losses = Losses()
        self.requests: dict[Name, RequestedTargets] = {}
        self.open_requests: dict[tuple[str, int], ApiRequest] = {}
        """The requests that were not answered yet, by controller and number."""
        self.granted: dict[str, dict[int, int]] = {}
        """By controller: the brokers whose shutdown it granted in its term, and their epochs."""
        self.cancel = 0
        """The czxid of /admin/reassign_cancel; 0: it does not exist."""
        self.was_cancelled = False
        """Whether /admin/reassign_cancel has existed."""
        self.allows_unclean: dict[str, None] = {}
        """The topics whose unclean election was allowed or requested at some time; "": all."""
        self.allows_unclean_by_default = False
        """Whether unclean elections have been allowed for topics without an override."""
        self.configs: dict[str, list[dict[str, str]]] = {}
        """All contents that the configuration of a topic, broker or user has had, by path, the
        present one last."""
        self.had_kafka = False
        """Whether a controller with Kafka's rules has had the role."""

    def contents_of(self, path: str) -> list[dict[str, str]]:
        """All contents that a configuration has had, the present one last."""
        return self.configs.get(path, [{}])

    def settings(self, path: str, key: str) -> list[str | None]:
        """All values that a setting has had in the configuration at a path, the present one last.
        None: not set."""
        return [one.get(key) for one in self.contents_of(path)]

    def min_insync_max(self, topic: str) -> int:
        """The largest min.insync.replicas that a topic has had, also by the dynamic default."""
        paths = znodes.topic_config_path(topic), znodes.broker_config_path(None)
        values = [one for path in paths for one in self.settings(path, MIN_INSYNC_REPLICAS)]
        return max((parse_natural(one) or 1 for one in values if one is not None), default=1)

    def elects_uncleanly(self, topic: str, configuration: Configuration) -> bool:
        """Whether a controller with this configuration must elect unclean leaders for a topic: its
        own setting allows them, or it has never had one and the default allows them. The end of a
        setting is no reason for an election (KB 3.10)."""
        *earlier, now = self.settings(znodes.topic_config_path(topic), UNCLEAN)
        if now is not None or any(one is not None for one in earlier):
            return is_true(now)
        is_allowed = configuration.unclean_leader_election_enable
        for broker in (None, configuration.broker_id):
            default = self.settings(znodes.broker_config_path(broker), UNCLEAN)[-1]
            is_allowed = is_allowed if default is None else is_true(default)
        return is_allowed

    def requests_of(self, name: Name) -> RequestedTargets:
        """The targets that clients have requested for a partition."""
        found = self.requests.get(name)
        if found is None:
            found = self.requests[name] = RequestedTargets()
        return found

    def has_granted_shutdown(self, process: str, broker: int) -> bool:
        """Whether a controller has granted the controlled shutdown of a broker in its term, and the
        broker has not registered again. The controller may have forgotten that."""
        epoch = self.granted.get(process, {}).get(broker)
        return epoch is not None and epoch == self.brokers.get(broker)

    def is_requested_by_api(self, name: Name) -> bool:
        """Whether a controller is to answer an AlterPartitionReassignments request for it."""
        return any(
            name == (one.topic, one.partition)
            for asked in self.open_requests.values()
            if isinstance(asked, AlterPartitionReassignmentsReceived)
            for one in asked.partitions
        )

    @staticmethod
    def is_refold(process: str) -> bool:
        """Whether a process is a refold."""
        return is_refold(process)

    def may_elect_uncleanly(self, name: Name) -> bool:
        """Whether an unclean election of a partition has been allowed or requested."""
        return "" in self.allows_unclean or name[0] in self.allows_unclean

    def topic_of(self, name: Name) -> KnownTopic | None:
        """The topic of a partition."""
        return self.topics.get(name[0])

    def assignment(self, name: Name) -> Assignment | None:
        """The assignment of a partition; None if the partition does not exist."""
        topic = self.topics.get(name[0])
        return topic.assignments.get(name[1]) if topic is not None else None

    def is_assigned_by_tool(self, name: Name) -> bool:
        """Whether a tool has changed the assignment of a partition since a controller wrote it."""
        topic = self.topics.get(name[0])
        return topic is not None and name[1] in topic.by_tools

    def is_queued(self, topic: str) -> bool:
        """Whether the deletion of a topic is requested."""
        return znodes.delete_topic_path(topic) in self.admin

    def is_beyond_recovery(self, topic: str) -> bool:
        """Whether a topic is about to be deleted, or has lost its id."""
        found = self.topics.get(topic)
        return self.is_queued(topic) or (found is not None and found.has_lost_id)

    def recoverable(self) -> Iterator[tuple[Name, Assignment]]:
        """All partitions, except those of topics that are beyond recovery."""
        for topic in self.topics.values():
            if not self.is_beyond_recovery(topic.name):
                for number, assignment in topic.assignments.items():
                    yield (topic.name, number), assignment

    def entries_of(self, path: str) -> dict[Name, tuple[int, ...]]:
        """The entries of /admin/reassign_partitions or its KIP-236 counterpart."""
        return parsed_entries(path, self.admin.get(path))

    def request_of(self, path: str) -> dict[Name, tuple[int, ...]]:
        """The targets of a request below /admin/reassignment_requests."""
        return parsed_request(path, self.admin.get(path)).assignments

    def deletion_of(self, path: str) -> ReplicaDeletion | None:
        """The content of a child of /admin/replica_deletions; None if it cannot be parsed."""
        try:
            return znodes.read_deletion(path, self.admin.get(path))
        except ZnodeError:
            return None

    def is_legacy_move(self, name: Name) -> bool:
        """Whether the record of a reassignment says that /admin/reassign_partitions began it."""
        path = znodes.reassignment_path(*name)
        try:
            return znodes.read_reassignment(path, self.admin.get(path)).legacy
        except ZnodeError:
            return False

    def is_cancelling(self) -> bool:
        """Whether /admin/reassign_cancel exists, and the controller follows it."""
        return znodes.REASSIGN_CANCEL in self.admin and self.has_kip_236()

    def is_cancelled(self, name: Name) -> bool:
        """Whether the reassignment of a partition is being cancelled, or a client has requested
        that."""
        requests = self.requests.get(name)
        return self.is_cancelling() or (requests is not None and requests.is_cancelled)

    def waits(self, broker: int, name: Name) -> bool:
        """Whether a reassignment that adds this replica may not continue: /admin/reassign_cancel
        exists (KB 14.2.3)."""
        assignment = self.assignment(name)
        return assignment is not None and broker in assignment.adding and self.is_cancelling()

    def is_deleted_with_topic(self, broker: int, name: Name) -> bool:
        """Whether the deletion of the topic, which is requested, deletes this replica."""
        assignment = self.assignment(name)
        is_assigned = assignment is not None and broker in assignment.replicas
        return is_assigned and self.is_queued(name[0])


def without_controller(state: LeaderAndIsr) -> LeaderAndIsr:
    """The state without the controller epoch. A controller may put its own there without a write,
    as Kafka's does (KB 5.2)."""
    return structs.replace(state, controller_epoch=0)
