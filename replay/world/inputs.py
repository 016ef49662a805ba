"""The inputs of a run: faults, requests of brokers, acts of administrators, and orders of messages.

An input is a value with a time. A run is a function of its scenario and its inputs; without inputs
it has one fixed order. A file of inputs is TOML or JSON, each input with its kind:

    [[inputs]]
    input = "crash_broker"
    at_ms = 12000
    broker = 2

Processes are named as in `network`: "zookeeper", "broker 1", "refold 100", "stock 1", "admin",
"producer 0", "consumer 0".
"""

import re
from typing import Final, Literal

from msgspec import Struct

SAME: Final = "same"
NONE: Final = "none"

_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


def _kind(name: str) -> str:
    """The kind of an input in a file: its class in lower case, "crash_broker"."""
    return _CAPITAL.sub("_", name.replace("ZooKeeper", "Zookeeper")).lower()


class TimedInput(Struct, frozen=True, tag_field="input", tag=_kind):
    """The base of all inputs. `at_ms` is the virtual time since the run began."""

    at_ms: int


# Faults of brokers --------------------------------------------------------------------------------


class CrashBroker(TimedInput, frozen=True):
    """A broker ends without closing its session. It loses the records that it has not flushed if
    the whole machine fails. It starts again after `restart_after_ms`; None: never."""

    broker: int
    loses_unflushed: bool = False
    restart_after_ms: int | None = 5_000


class StopBroker(TimedInput, frozen=True):
    """A controlled shutdown of a broker. Once it is granted, or given up, the broker still serves
    for `closes_after_ms`, and for `lasts_ms` from the beginning of the shutdown; then it writes
    everything to the disk, closes its session, and ends. It starts again `restart_after_ms` later;
    None: never."""

    broker: int
    restart_after_ms: int | None = 5_000
    closes_after_ms: int = 0
    lasts_ms: int = 0


class FailLogDirectory(TimedInput, frozen=True):
    """The log directory of some partitions fails on a broker, which reports it by a znode below
    /log_dir_event_notification. Without `partitions`: of all that the broker has. The directory is
    repaired and the broker restarted after `repaired_after_ms`; None: never.

    A restart of the broker for another reason repairs the directory, too, unless it
    `survives_restart`: then the broker starts without the logs in it.
    """

    broker: int
    partitions: tuple[tuple[str, int], ...] = ()
    repaired_after_ms: int | None = 20_000
    survives_restart: bool = False


# Faults of any process ----------------------------------------------------------------------------


class PauseProcess(TimedInput, frozen=True):
    """A process does nothing for some time (SIGSTOP). Messages that arrive in this time wait."""

    process: str
    ms: int


class SlowDisk(TimedInput, frozen=True):
    """Each write of a broker or controller to its disk takes `latency_ms`, for `ms`."""

    process: str
    latency_ms: int
    ms: int


class ExpireSession(TimedInput, frozen=True):
    """ZooKeeper ends the session of a process now."""

    process: str


class LoseReply(TimedInput, frozen=True):
    """The connection breaks at the next write of a process, before the reply is sent.
    `is_carried_out`: ZooKeeper has carried out the write; otherwise the request is lost, too."""

    process: str
    is_carried_out: bool = True


class CutConnection(TimedInput, frozen=True):
    """The connections between two processes break, and none is possible for `ms`. 0: they may
    connect again at once."""

    one: str
    other: str
    ms: int


class HoldLink(TimedInput, frozen=True):
    """Nothing that one process sends arrives at another for `ms`; neither of them learns it. All of
    it arrives afterwards, also if the sender has ended by then.

    `accepts`: the sender can open connections meanwhile, as if only the receiver's network threads
    were busy. Otherwise connections are refused, as if the network were interrupted.
    """

    sender: str
    receiver: str
    ms: int
    accepts: bool = False


# Faults of ZooKeeper ------------------------------------------------------------------------------


class LagZooKeeper(TimedInput, frozen=True):
    """For `ms`, the server that a process is connected to applies a transaction late: `lag_ms`
    after its commit, or once `transactions` later ones are committed, whichever is first. 0 is no
    limit."""

    process: str
    transactions: int
    ms: int
    lag_ms: int = 0


class HangZooKeeper(TimedInput, frozen=True):
    """No server answers for `ms`. Session timers continue."""

    ms: int


class ChangeZooKeeperLeader(TimedInput, frozen=True):
    """The ensemble elects a leader: all connections break, none is possible for `ms`, and then all
    session timers start again."""

    ms: int


class StopZooKeeperMember(TimedInput, frozen=True):
    """One server ends and starts again after `ms`. Its clients connect to another one."""

    member: int
    ms: int


class DelayEphemeralDeletion(TimedInput, frozen=True):
    """For `ms`: if a session of the process expires, its ephemeral znodes are deleted only
    `delay_ms` later (ZOOKEEPER-1740)."""

    process: str
    delay_ms: int
    ms: int


# Faults of controllers ----------------------------------------------------------------------------


class CrashController(TimedInput, frozen=True):
    """A controller ends before or after one of its acts, without closing its session.

    An act is one write to ZooKeeper, one transaction of several writes, or one request to a broker.
    `act` counts the acts of the process from `at_ms` on, over all its runs, from 1.
    "before" means that this act is not carried out; "after" that it is carried out and that nothing
    else happens.

    `successor`: "same": the process starts again after `restart_after_ms`; "none": it stays down;
    otherwise another controller that starts at once, if it does not run, while this one stays down.
    """

    process: str
    act: int
    when: Literal["before", "after"] = "before"
    successor: str = SAME
    restart_after_ms: int = 2_000


class KillController(TimedInput, frozen=True):
    """A controller ends without closing its session. `successor` as for CrashController."""

    process: str
    successor: str = SAME
    restart_after_ms: int = 2_000


class StartController(TimedInput, frozen=True):
    """A controller starts, if it does not run."""

    process: str


class ShutDownController(TimedInput, frozen=True):
    """A refold is asked to exit (SIGTERM): it gives up the role. It starts again `restart_after_ms`
    after it has exited; None: never."""

    process: str
    restart_after_ms: int | None = None


# Requests of brokers ------------------------------------------------------------------------------


class AllocateProducerIds(TimedInput, frozen=True):
    """A broker needs a block of producer ids. Nothing happens before it has registered, or while it
    still waits for an earlier block.

    Routes: a request to the controller, as from inter.broker.protocol.version 3.0-IV0 on; the znode
    /latest_producer_id_block, which brokers write themselves with an earlier version. In a cluster
    whose version is being changed, some brokers use one route, and some the other.
    """

    broker: int
    route: Literal["api", "znode"] = "api"


# Orders -------------------------------------------------------------------------------------------


class Delay(TimedInput, frozen=True):
    """Message `number` of a link "sender>receiver" arrives `ms` later, and with it all later ones
    of the link. `at_ms` has no effect: it is about when the message was sent when this input was
    made."""

    link: str
    number: int
    ms: int


# Topics -------------------------------------------------------------------------------------------


class CreateTopic(TimedInput, frozen=True):
    """An administrator creates a topic with the given replicas of each partition.

    Routes: a request to the controller; the znode without a topic id, as tools before 2.8 write it;
    the znode with a topic id, as brokers of 2.8 and later do.
    """

    topic: str
    assignment: tuple[tuple[int, ...], ...]
    configs: dict[str, str] = {}
    route: Literal["api", "znode", "znode_with_id"] = "api"


class DeleteTopic(TimedInput, frozen=True):
    """An administrator deletes a topic: by a request, or by its marker below
    /admin/delete_topics."""

    topic: str
    route: Literal["api", "znode"] = "api"


class CreatePartitions(TimedInput, frozen=True):
    """An administrator adds partitions to a topic.

    Routes: a request; the topic's znode with its topic id; the znode without its topic id, as a
    tool before 2.8 writes it (KAFKA-14190).
    """

    topic: str
    added: tuple[tuple[int, ...], ...]
    route: Literal["api", "znode", "znode_without_id"] = "api"


class ChangeTopicConfig(TimedInput, frozen=True):
    """An administrator sets all overrides of a topic, by its znode and a notification.

    Kafka has no other route: AlterConfigs and IncrementalAlterConfigs are no requests to the
    controller's code. The broker that receives them writes the same two znodes.
    """

    topic: str
    configs: dict[str, str]


class ChangeBrokerConfig(TimedInput, frozen=True):
    """An administrator sets the dynamic configuration of a broker (None: of all brokers), by its
    znode and a notification."""

    broker: int | None
    configs: dict[str, str]


# Users and features -------------------------------------------------------------------------------


Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
MECHANISMS: Final[dict[int, Mechanism]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""By Kafka's numbers."""
UpgradeKind = Literal["upgrade", "safe_downgrade", "unsafe_downgrade"]
UPGRADE_KINDS: Final[dict[int, UpgradeKind]] = {
    1: "upgrade",
    2: "safe_downgrade",
    3: "unsafe_downgrade",
}
"""By Kafka's numbers."""


class CredentialChange(Struct, frozen=True):
    """A SCRAM credential that a user shall have; without one it is deleted. Any text can be a
    credential in a simulated cluster."""

    user: str
    mechanism: Mechanism
    credential: str | None = None
    iterations: int = 4_096


class AlterUserScramCredentials(TimedInput, frozen=True):
    """An administrator changes SCRAM credentials of users, by one request."""

    changes: tuple[CredentialChange, ...]


class FeatureChange(Struct, frozen=True):
    """A level that a finalized feature shall have; 0: it is deleted."""

    feature: str
    level: int
    kind: UpgradeKind = "upgrade"


class UpdateFeatures(TimedInput, frozen=True):
    """An administrator changes finalized features, by one request. A broker in ZooKeeper mode
    supports no feature: levels that are in /feature can be deleted, none can be set.
    `validate_only`: the request is checked, and nothing changes."""

    changes: tuple[FeatureChange, ...]
    validate_only: bool = False


# Reassignments and elections ----------------------------------------------------------------------


class Target(Struct, frozen=True):
    """The replicas that a partition shall have."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


class Reassign(TimedInput, frozen=True):
    """An administrator reassigns partitions.

    Routes: AlterPartitionReassignments; the znode /admin/reassign_partitions, created or, if it
    exists, overwritten; KIP-236's /admin/reassign_partitions_extra; KIP-236's request znodes below
    /admin/reassignment_requests, and the same with the mark of a legacy request.
    """

    targets: tuple[Target, ...]
    route: Literal["api", "znode", "extra", "request", "legacy_request"] = "api"


class CancelReassignment(TimedInput, frozen=True):
    """An administrator cancels reassignments.

    Routes: AlterPartitionReassignments without replicas for the named partitions; KIP-236's
    /admin/reassign_cancel, which is for all of them. `force`: even without enough originals.
    """

    partitions: tuple[tuple[str, int], ...] = ()
    route: Literal["api", "znode"] = "api"
    force: bool = False


class EndCancellation(TimedInput, frozen=True):
    """An administrator deletes /admin/reassign_cancel."""


class DeleteStrays(TimedInput, frozen=True):
    """An administrator requests the deletion of replicas that are not assigned, by a znode below
    /admin/replica_deletions."""

    broker: int
    partitions: tuple[tuple[str, int], ...]


class ElectLeaders(TimedInput, frozen=True):
    """An administrator requests elections. Without `partitions`: of all partitions. The route
    "znode" is /admin/preferred_replica_election, which has no unclean elections."""

    partitions: tuple[tuple[str, int], ...] = ()
    election: Literal["preferred", "unclean"] = "preferred"
    route: Literal["api", "znode"] = "api"


# Znodes -------------------------------------------------------------------------------------------


class DeleteControllerZnode(TimedInput, frozen=True):
    """An administrator deletes /controller, which forces an election of the controller."""


class WriteZnode(TimedInput, frozen=True):
    """An administrator sets the data of a znode, or creates it. Data that Kafka does not write can
    break invariants: a broker without a readable registration, for example, is not alive."""

    path: str
    data: str


class DeleteZnode(TimedInput, frozen=True):
    """An administrator deletes a znode without children."""

    path: str


BrokerFault = CrashBroker | StopBroker | FailLogDirectory
ProcessFault = PauseProcess | SlowDisk | ExpireSession | LoseReply | CutConnection | HoldLink
ZooKeeperFault = (
    LagZooKeeper
    | HangZooKeeper
    | ChangeZooKeeperLeader
    | StopZooKeeperMember
    | DelayEphemeralDeletion
)
ControllerFault = CrashController | KillController | StartController | ShutDownController
Fault = BrokerFault | ProcessFault | ZooKeeperFault | ControllerFault
AdminAct = (
    CreateTopic
    | DeleteTopic
    | CreatePartitions
    | ChangeTopicConfig
    | ChangeBrokerConfig
    | AlterUserScramCredentials
    | UpdateFeatures
    | Reassign
    | CancelReassignment
    | EndCancellation
    | DeleteStrays
    | ElectLeaders
    | DeleteControllerZnode
    | WriteZnode
    | DeleteZnode
)
Input = Fault | AllocateProducerIds | AdminAct | Delay
