"""An invariant, the facts that it is fed with, and a violation of it.

The monitor (replay/explore/monitor.py) turns what an observer of the simulation sees into facts,
and calls only those invariants that override the method of a fact. So an invariant looks only at
what has changed.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

from msgspec import Struct

from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.commands import BrokerRequest
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import Name
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.world.observer import AcknowledgedRecord


class Violation(Struct, frozen=True):
    """The first moment of a run at which an invariant does not hold. `subject` is the partition,
    broker, znode or process; `text` says what was found and what was expected."""

    invariant: str
    at_us: int
    subject: str
    text: str


Report = Callable[[str, str, str], None]
"""Takes the name of the invariant, the subject and the text."""


class StateWrite(NamedTuple):
    """A partition's state znode was written. `process` is the writer; `topic` None: the topic's
    znode does not exist. `restarted`: members of the ISR before that have registered since that
    ISR was written."""

    name: Name
    topic: KnownTopic | None
    before: LeaderAndIsr | None
    after: LeaderAndIsr
    process: str
    is_controller: bool
    restarted: tuple[int, ...]


class AssignmentWrite(NamedTuple):
    """The assignment of one partition changed in its topic's znode."""

    name: Name
    topic: KnownTopic
    before: Assignment | None
    after: Assignment
    process: str


class TopicReplica(NamedTuple):
    """A replica on a broker, with the id of its topic as the broker knows it."""

    broker: int
    topic: str
    topic_id: bytes | None
    partition: int

    @property
    def name(self) -> Name:
        """Its partition."""
        return self.topic, self.partition


class AppliedRequest(NamedTuple):
    """A broker has carried out a request of a controller. `refused`: the partitions that it
    rejected. `run` numbers the broker's processes."""

    broker: int
    run: int
    request: BrokerRequest
    refused: frozenset[Name]


_TopicKey = TypeVar("_TopicKey", bound=tuple[str, bytes | None, *tuple[int, ...]])


def forget_topic_without_id(values: dict[_TopicKey, Any], topic: KnownTopic) -> None:
    """Forget what is known of a deleted topic by its name and id, if it had no id: a later topic of
    the same name begins with the same epochs."""
    for key in [one for one in values if one[:2] == (topic.name, None)]:
        del values[key]


class Invariant:
    """A property that must always hold in a cluster. A subclass overrides the facts that it
    needs."""

    NAME: ClassVar[str]
    STATEMENT: ClassVar[str]

    def __init__(self, known: KnownCluster, report: Report) -> None:
        self.known = known
        self._report = report

    def violated(self, subject: object, text: str) -> None:
        """Report a violation."""
        self._report(self.NAME, str(subject), text)

    # ZooKeeper

    def state_written(self, write: StateWrite) -> None:
        """A partition's leader or ISR was written."""

    def assignment_written(self, write: AssignmentWrite) -> None:
        """A partition's assignment was written."""

    def topic_id_written(self, topic: KnownTopic, before: bytes | None, after: bytes) -> None:
        """A topic's znode has another topic id than before."""

    def topic_id_removed(self, topic: KnownTopic, process: str) -> None:
        """A controller has written a topic's znode without the topic id that it had."""

    def partitions_removed(self, topic: KnownTopic, numbers: list[int], process: str) -> None:
        """A topic's znode no longer has these partitions."""

    def epoch_written(self, before: int, after: int, process: str) -> None:
        """/controller_epoch was written."""

    def controller_writes(self, process: str, term: int, path: str) -> None:
        """A controller with the role of this epoch is about to change a znode; `path` is the first
        one of the transaction."""

    def topic_deleted(self, topic: KnownTopic) -> None:
        """A topic's znode was deleted."""

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        """A znode under /admin was created, set, or deleted (None)."""

    def producer_ids_written(self, data: bytes | None, process: str) -> None:
        """/latest_producer_id_block was created, set, or deleted (None)."""

    def user_written(
        self, path: str, before: dict[str, str], after: dict[str, str], process: str
    ) -> None:
        """The configuration of a user was written; it is empty if its znode does not exist."""

    def transaction_ended(self) -> None:
        """All changes of a transaction were reported."""

    # Controllers

    def decided(self, process: str, name: Name, state: LeaderAndIsr) -> None:
        """A controller decides to write a partition's state."""

    def isr_requested(self, name: Name, state: LeaderAndIsr) -> None:
        """A controller received a request of a leader to write this state (AlterPartition)."""

    def sent(self, process: str, epoch: int, request: BrokerRequest) -> None:
        """A controller sends a request to a broker."""

    def noticed(self, process: str, code: str, subject: str) -> None:
        """A controller logs a line (Notice), before it carries out what follows."""

    def list_changed(self, process: str, path: str, seq: int) -> None:
        """A controller recorded that a watch of a list of children has fired, as event `seq`."""

    def list_read(self, process: str, path: str, children: list[str], asked: int) -> None:
        """A controller recorded a list of children, which it had asked for at event `asked`."""

    def handled(self, process: str) -> None:
        """A controller has handled all its events, and knows the cluster's state."""

    def received(self, process: str, request: ApiRequest) -> None:
        """A controller received a request of a broker or client."""

    def answered(self, process: str, request: ApiRequest | None, response: ApiResponse) -> None:
        """A controller answers a request. `request`: the request; None if this run has not received
        it, or has answered it before."""

    def granted(self, process: str, broker: int, broker_epoch: int) -> None:
        """A controller answers a request of a broker without an error. `broker_epoch`: as the
        broker wrote it into the request."""

    def shutdown_granted(self, process: str, broker: int, broker_epoch: int) -> None:
        """A controller answers the request of a broker for its controlled shutdown, without an
        error. `broker_epoch`: as the broker wrote it into the request."""

    # Brokers

    def applied(self, applied: AppliedRequest) -> None:
        """A broker has carried out a request."""

    def leads(self, replica: TopicReplica, leader_epoch: int) -> None:
        """A replica begins to lead in a leader epoch."""

    def replica_deleted(self, replica: TopicReplica) -> None:
        """A broker deleted the files of a replica."""

    def truncated(self, replica: TopicReplica, offset: int) -> None:
        """A replica removed its records from `offset` on, because its leader does not have them."""

    def lost(self, replica: TopicReplica, offset: int) -> None:
        """A machine failed, and a replica lost its records from `offset` on."""

    # Clients

    def acknowledged(self, one: AcknowledgedRecord) -> None:
        """A record was acknowledged to a producer with acks=all."""

    def consumed(
        self, consumer: str, name: Name, offset: int, record: int, leader_epoch: int
    ) -> None:
        """A consumer has read a record of a leader in its leader epoch."""
