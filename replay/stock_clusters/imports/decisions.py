"""Classifies transactions: decisions of a controller, writes for a request, or other input. Pure.

docs/imported-logs.md states every rule and defines the kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from controller.core import znodes
from controller.core.api_requests.alter_partition import ProposedState
from controller.core.api_requests.reassignments import ReassignmentTarget
from controller.core.errors import ZnodeError
from controller.core.operations import BAD_VERSION, NODE_EXISTS
from controller.core.values import Assignment
from replay.parsed_znodes import parsed_topic
from replay.stock_clusters.imported_log.events import DecisionObserved, RequestInferred
from replay.stock_clusters.imports.logged_requests import LoggedRequests
from replay.stock_clusters.imports.terms import UNKNOWN_BROKER, Term, Terms, find_znode
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Error,
    Multi,
    Operation,
    SetAcl,
    SetData,
    Transaction,
)
from replay.znode_tree.paths import below
from replay.znode_tree.tree import Tree

KINDS: Final = (
    "election",
    "controller_epoch",
    "resignation",
    "partition_state",
    "partition_znode",
    "assignment",
    "topic_deletion",
    "reassign_partitions",
    "preferred_election",
    "notification",
    "feature",
    "producer_ids",
    "fenced",
    "refused",
    "other",
)
"""The kinds of decisions; docs/imported-logs.md defines each."""

_ELECTION_OPERATIONS: Final = 2
_BELOW: Final = (
    (f"{znodes.TOPIC_CONFIGS}/", "topic_deletion"),
    (f"{znodes.DELETE_TOPICS}/", "topic_deletion"),
    (f"{znodes.ISR_CHANGES}/", "notification"),
    (f"{znodes.LOG_DIR_EVENTS}/", "notification"),
)
_REMEMBERED: Final = 1 << 14
_SINGLE: Final[Mapping[str, str]] = {
    znodes.CONTROLLER: "resignation",
    znodes.FEATURE: "feature",
    znodes.PRODUCER_IDS: "producer_ids",
    znodes.REASSIGN_PARTITIONS: "reassign_partitions",
    znodes.PREFERRED_ELECTION: "preferred_election",
}


class _ReassignedPartition(Struct):
    topic: str
    partition: int
    replicas: list[int]


class _Reassigned(Struct):
    partitions: list[_ReassignedPartition]


_reassigned_decoder: Final = msgspec.json.Decoder(_Reassigned)

# The content that one write stores is parsed again for the next write.
_read_state: Final = lru_cache(_REMEMBERED)(znodes.read_state)
_state_of: Final = lru_cache(_REMEMBERED)(znodes.partition_of_state)

_Requested = ProposedState | ReassignmentTarget
_Content = DecisionObserved | RequestInferred


class DecisionClassifier:
    """Classifies a cluster's transactions one by one.

    `tree` and `terms` must be in the state before the transaction that is classified.
    """

    def __init__(self, chroot: str, tree: Tree, terms: Terms, requests: LoggedRequests) -> None:
        self._chroot = chroot
        self._tree = tree
        self._terms = terms
        self._requests = requests
        self._allocates_producer_ids = requests.allocates_producer_ids

    def classify(self, transaction: Transaction) -> _Content | None:
        """The decision or request that a transaction is; None for other input."""
        content = transaction.content
        if isinstance(content, Multi):
            return self._multi(transaction, content)
        if isinstance(content, (Create, SetData, Delete)):
            return self._plain(transaction, content)
        return None

    def _multi(self, transaction: Transaction, multi: Multi) -> _Content | None:
        first = multi.operations[0] if multi.operations else None
        error = multi.error
        if isinstance(first, Check) and first.path == self._terms.epoch_path:
            if error:
                return self._observed_decision(transaction, "refused", error)
            return self._guarded_multi(transaction, multi.operations[1:])
        if isinstance(first, Error):
            if error == BAD_VERSION and self._is_of_kafka(transaction.session):
                return self._observed_decision(transaction, "fenced", error)
            if self._is_lost_election(transaction, multi):
                return self._observed_decision(transaction, "election", error)
            return None
        return self._unguarded_multi(transaction, multi)

    def _unguarded_multi(self, transaction: Transaction, multi: Multi) -> DecisionObserved | None:
        term = self._terms.elected(transaction)
        if term is not None:
            return self._observed_decision(transaction, "election", 0, term)
        is_election = multi.error and any(
            isinstance(one, Create) and one.path == self._terms.controller_path
            for one in multi.operations
        )
        if not is_election:
            return None
        return self._observed_decision(transaction, "election", multi.error)

    def _is_of_kafka(self, session: int) -> bool:
        """Whether a session belongs to a broker, if no path shows it."""
        return self._terms.broker_of(session, self._tree) != UNKNOWN_BROKER

    def _is_lost_election(self, transaction: Transaction, multi: Multi) -> bool:
        """A broker's registration has the same form, but the broker is not registered then."""
        return (
            multi.error == NODE_EXISTS
            and len(multi.operations) == _ELECTION_OPERATIONS
            and find_znode(self._tree, self._terms.controller_path) is not None
            and self._terms.registered(transaction.session, self._tree) != UNKNOWN_BROKER
        )

    def _plain(
        self, transaction: Transaction, operation: Create | SetData | Delete
    ) -> DecisionObserved | None:
        path = operation.path
        if path == self._terms.epoch_path and isinstance(operation, Create):
            return self._observed_decision(transaction, "controller_epoch", 0)
        what = _SINGLE.get(self._in_kafka(path))
        if what not in ("resignation", "feature", "producer_ids"):
            return None
        term = self._terms.last_of(transaction.session)
        is_controllers = term is not None and term == self._terms.current
        if what == "producer_ids":
            return self._producer_ids(transaction, operation, is_controllers)
        if not is_controllers or (what == "resignation") != isinstance(operation, Delete):
            return None
        return self._observed_decision(transaction, what, 0)

    def _producer_ids(
        self, transaction: Transaction, operation: Operation, is_controllers: bool
    ) -> DecisionObserved | None:
        """A controller allocates blocks to all brokers. Before IBP 3.0 each broker, including the
        controller, takes its own blocks."""
        if not is_controllers or not isinstance(operation, SetData):
            return None
        own = self._terms.broker_of(transaction.session, self._tree)
        if not self._allocates_producer_ids and _block_of(operation.data) in (own, UNKNOWN_BROKER):
            return None
        self._allocates_producer_ids = True
        return self._observed_decision(transaction, "producer_ids", 0)

    def _guarded_multi(self, transaction: Transaction, operations: Sequence[Operation]) -> _Content:
        """A completed multi with the epoch check; input if all its writes are for a request."""
        broker = self._terms.broker_of(transaction.session, self._tree)
        requested: list[_Requested] = []
        for one in operations:
            found = self._unlogged_requests(one, broker, transaction.time_ms)
            if not found:
                break
            requested += found
        else:
            if operations:
                return _inferred_request(transaction.zxid, broker, requested)
        written = (one for one in operations if type(one) is not Check)
        return self._observed_decision(transaction, self._kind(next(written, None)), 0)

    def _unlogged_requests(
        self, operation: Operation, broker: int, time_ms: int
    ) -> Sequence[_Requested]:
        """The requests that an operation fulfils and that no request log has."""
        if type(operation) is not SetData:
            return ()
        path = self._in_kafka(operation.path)
        partition = _state_of(path)
        if partition is not None:
            state = self._proposed_state(operation, path, partition)
            if state is None or self._is_logged_state(broker, state, time_ms):
                return ()
            return (state,)
        topic = znodes.topic_of(path)
        targets = () if topic is None else self._targets(operation, topic)
        return [one for one in targets if not self._is_logged_target(broker, one, time_ms)]

    def _proposed_state(
        self, operation: SetData, path: str, partition: tuple[str, int]
    ) -> ProposedState | None:
        """A new state as an AlterPartition proposes it; None if no AlterPartition leads to it."""
        before = find_znode(self._tree, operation.path)
        if before is None:
            return None
        try:
            old = _read_state(path, before.data, before.version)
            new = _read_state(path, operation.data, operation.version)
        except ZnodeError:
            return None
        if (old.leader, old.leader_epoch) != (new.leader, new.leader_epoch):
            return None
        if (old.isr, old.recovery_state) == (new.isr, new.recovery_state):
            return None
        return ProposedState(
            *partition, new.leader_epoch, new.isr, new.recovery_state, before.version
        )

    def _is_logged_state(self, broker: int, state: ProposedState, time_ms: int) -> bool:
        if not self._requests.coverage.knows(broker):
            return False
        if self._requests.coverage.covers(broker, time_ms):
            return True
        topic = find_znode(self._tree, f"{self._chroot}{znodes.topic_path(state.topic)}")
        return self._requests.has_isr(
            broker, _topic_id(state.topic, topic.data if topic else b""), state
        )

    def _is_logged_target(self, broker: int, target: ReassignmentTarget, time_ms: int) -> bool:
        requests = self._requests
        return requests.coverage.covers(broker, time_ms) or requests.has_target(
            broker, target, time_ms
        )

    def _targets(self, operation: SetData, topic: str) -> Iterator[ReassignmentTarget]:
        """The reassignments that a topic's new znode begins, replaces or cancels, except those
        that /admin/reassign_partitions asks for."""
        before = find_znode(self._tree, operation.path)
        if before is None:
            return
        try:
            old = znodes.read_topic(topic, before.data).assignments
            new = znodes.read_topic(topic, operation.data).assignments
        except ZnodeError:
            return
        changed = [number for number, one in new.items() if old.get(number, one) != one]
        if not changed:
            return
        by_znode = self._reassigned()
        for number in changed:
            for replicas in _requested_replicas(old[number], new[number]):
                if replicas is None or by_znode.get((topic, number)) != replicas:
                    yield ReassignmentTarget(topic, number, replicas)

    def _reassigned(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """The content of /admin/reassign_partitions, without duplicate replicas, as in Kafka."""
        znode = find_znode(self._tree, self._chroot + znodes.REASSIGN_PARTITIONS)
        try:
            listed = _reassigned_decoder.decode(znode.data if znode else b"").partitions
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return {(one.topic, one.partition): tuple(dict.fromkeys(one.replicas)) for one in listed}

    def _kind(self, operation: Operation | None) -> str:
        """The kind of a guarded operation."""
        if operation is None or isinstance(operation, (Error, Check)):
            return "other"
        path = self._in_kafka(_path(operation))
        return kind_of(path, is_delete=isinstance(operation, Delete))

    def _observed_decision(
        self, transaction: Transaction, what: str, error: int, term: Term | None = None
    ) -> DecisionObserved:
        term = term or self._terms.last_of(transaction.session)
        broker = self._terms.broker_of(transaction.session, self._tree)
        if broker == UNKNOWN_BROKER and term is not None:
            broker = term.broker
        epoch = 0 if term is None else term.epoch
        is_warm = self._terms.is_warm and (what != "election" or error != 0)
        is_kraft = term is not None and term.is_kraft
        return DecisionObserved(transaction.zxid, what, broker, epoch, error, is_warm, is_kraft)

    def _in_kafka(self, path: str) -> str:
        """A path without the chroot; "" if it is outside of it."""
        return below(path, self._chroot) or ""


def kind_of(path: str, *, is_delete: bool) -> str:
    """The kind of a guarded write, by its path without the chroot."""
    if path == znodes.CONTROLLER:
        return "resignation" if is_delete else "other"
    if path in _SINGLE:
        return _SINGLE[path]
    if not path.startswith(f"{znodes.TOPICS}/"):
        return next((kind for start, kind in _BELOW if path.startswith(start)), "other")
    if is_delete:
        return "topic_deletion"
    if znodes.partition_of_state(path) is not None:
        return "partition_state"
    return "assignment" if znodes.topic_of(path) is not None else "partition_znode"


def _inferred_request(zxid: int, broker: int, requested: Sequence[_Requested]) -> RequestInferred:
    states = [one for one in requested if isinstance(one, ProposedState)]
    targets = [one for one in requested if isinstance(one, ReassignmentTarget)]
    return RequestInferred(zxid, broker, states, targets)


def _path(
    operation: Create | CreateTtl | CreateContainer | Delete | SetData | SetAcl,
) -> str:
    return operation.path


def _topic_id(name: str, data: bytes) -> str:
    """The topic's id in hex, "" if it has none."""
    content = parsed_topic(name, data)
    return "" if content is None or content.topic_id is None else content.topic_id.hex()


def _block_of(data: bytes | None) -> int:
    """The broker that receives a block of producer ids, UNKNOWN_BROKER if it cannot be read."""
    try:
        return znodes.read_producer_ids(data or b"").broker
    except ZnodeError:
        return UNKNOWN_BROKER


def _requested_replicas(old: Assignment, new: Assignment) -> Iterator[tuple[int, ...] | None]:
    """The target of the reassignment that changes one assignment into another.

    None for a cancelled reassignment; nothing if it only completes (KB 7.7, phases U and B).
    """
    goes_on = bool(new.adding or new.removing)
    was_under_way = bool(old.adding or old.removing)
    if goes_on or not was_under_way:
        yield _remove_replicas(new.replicas, new.removing)
    elif new.replicas == _remove_replicas(old.replicas, old.removing):
        return
    elif new.replicas == _remove_replicas(old.replicas, old.adding):
        yield None
    else:
        yield new.replicas


def _remove_replicas(replicas: Sequence[int], others: Sequence[int]) -> tuple[int, ...]:
    return tuple(one for one in replicas if one not in others)
