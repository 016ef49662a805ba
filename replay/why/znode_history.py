"""Notes what the transactions of an imported log did to a subject, whichever process wrote them."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.values import NO_ASSIGNMENT, Assignment
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    is_forced,
    read_reassignment,
    read_request,
)
from eventstore.records import EventRecord
from replay.cluster_view.from_znodes import state_of
from replay.cluster_view.views import NO_BROKER
from replay.description.phrases import session_name
from replay.names import partition_name
from replay.parsed_znodes import is_request
from replay.stock_clusters.imported_log.events import (
    BrokerLogged,
    ControllerLogged,
    ImportedEvent,
    ImportResumed,
    StateChangeLogged,
    ZnodesGone,
    ZnodesRestored,
)
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.imported_log.state_events import apply
from replay.stock_clusters.imports.terms import UNKNOWN_SESSION, Terms, find_znode
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    CloseSession,
    Create,
    Delete,
    Multi,
    SessionEnd,
    SetData,
    Transaction,
)
from replay.subjects import ZnodeSubject, subject_of
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    CancelZnodeObserved,
    ReassignmentRequested,
    RecordZnodeObserved,
    RoleChanged,
    StateWritten,
    TopicChanged,
)
from replay.why.move_observer import route_of
from replay.why.stock_failures import StockFailures
from replay.why.stock_requests import StockRequests
from replay.why.subject import Subject
from replay.znode_view import ZnodeView

_Operation = Create | SetData | Delete
_ENDED: Final = {
    SessionEnd.EXPIRED: "expired",
    SessionEnd.CLOSED: "was closed by the broker",
    SessionEnd.UNKNOWN: "ended",
}
_MISSED: Final = "a missing transaction"


class ControllerFromLogs(Struct):
    """The state of the current controller, as the brokers' logs show it."""

    failures: StockFailures = field(default_factory=StockFailures)
    requests: StockRequests = field(default_factory=StockRequests)


class ZnodeHistory:
    """Applies the transactions of a log in order; `facts` are those about the subject."""

    def __init__(
        self, log: ImportedLog, subject: Subject, controller: ControllerFromLogs | None = None
    ) -> None:
        """`controller` is the one at the beginning of `log`; None: only the znodes are known."""
        self.view = ZnodeView(log.state.tree, log.begun.chroot)
        self.facts: list[AnyFact] = []
        self.seq = self.wall_ns = 0
        self._state = log.state
        self._subject = subject
        self._terms = Terms(log.begun.chroot, log.state.tree)
        self.controller = controller or ControllerFromLogs()
        self.requests, self._failures = self.controller.requests, self.controller.failures
        if controller is None and self._terms.current is not None:
            self._failures.elected(self._terms.current.broker, self._terms.current.epoch)

    def apply(self, record: EventRecord, event: ImportedEvent) -> None:
        """Note the changes of a transaction or of missing transactions, then apply them."""
        self.seq, self.wall_ns = record.seq, record.wall_ns
        before = self._terms.current
        if isinstance(event, BrokerLogged):
            self._failures.logs(event, self.wall_ns)
        if isinstance(event, Transaction):
            who = self._writer_name(event)
            for one in self._operations(event):
                self._operation(one, event, who)
            self._terms.follow(event)
        elif isinstance(event, ControllerLogged):
            fact = self._failures.fact(event, self.seq, self.wall_ns)
            if fact is not None:
                self.facts.append(fact)
        elif isinstance(event, StateChangeLogged):
            self.requests.note(event, self.seq, self.wall_ns)
        else:
            for one in self._missing_writes(event):
                self._operation(one, None, _MISSED)
        apply(self._state, event)
        if isinstance(event, ImportResumed):
            self._terms.resume(self._state.tree)
        after = self._terms.current
        if after is not None and after is not before:
            self._failures.elected(after.broker, after.epoch)
            self.requests.elected(after.broker)
            text = f"elected controller, epoch {after.epoch}"
            replaced = before if before is not None and _replaces(event) else None
            self._add(
                RoleChanged,
                code="elected",
                broker=after.broker,
                is_kraft=after.is_kraft,
                text=text,
                other=NO_BROKER if replaced is None else replaced.broker,
                is_other_kraft=replaced is not None and replaced.is_kraft,
            )

    def stuck_controller(self) -> list[AnyFact]:
        """The fact that the controller is stuck after the last record, if it is."""
        found = self._failures.stuck_controller(self.seq, self.wall_ns)
        return [] if found is None else [found]

    def _operations(self, transaction: Transaction) -> Iterator[_Operation]:
        if isinstance(transaction.content, CloseSession):
            yield from map(Delete, self._state.tree.ephemerals(transaction.session))
        for one in transaction.operations:
            if isinstance(one, (Create, SetData, Delete)):
                yield one

    def _missing_writes(self, event: ImportedEvent) -> Iterator[_Operation]:
        """The writes of missing transactions, which are known by their results only."""
        if isinstance(event, ZnodesGone):
            yield from map(Delete, event.paths)
        elif isinstance(event, ZnodesRestored):
            for path, data, version in zip(event.paths, event.data, event.versions, strict=True):
                if (
                    find_znode(self._state.tree, path) is None
                    and znodes.partition_of_state(path) is None
                ):
                    yield Create(path, data, OPEN_ACL, False, 0)
                else:
                    yield SetData(path, data, version)

    def _operation(self, one: _Operation, transaction: Transaction | None, who: str) -> None:
        path = self.view.in_kafka(one.path)
        if path is None:
            return
        subject = subject_of(path)
        if path == znodes.CONTROLLER and isinstance(one, Delete):
            self._role_ends(transaction, who)
        elif subject.kind == "broker" and subject.broker is not None:
            self._broker(subject.broker, one, transaction)
        elif subject.kind == "topic deletion" and self._subject.covers_topic(subject.topic):
            self._deletion_request(path, one, who)
        elif subject.kind == "topic" and self._subject.covers_topic(subject.topic):
            self._topic(subject.topic or "", one, who)
        elif path == REASSIGN_CANCEL:
            self._cancellation(one, transaction)
        elif path in (znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA):
            if not isinstance(one, Delete):
                self._request(path, one.data)
        elif is_request(path) and isinstance(one, Create):
            self._new_request(path, one.data)
        elif subject.kind == "reassignment" and self.covers_moves(subject):
            self._record(path, f"{subject.topic}-{subject.partition}", one)
        elif not isinstance(one, Delete) and (found := znodes.partition_of_state(path)):
            self._partition_state(path, found, one, who)

    def _writer_name(self, transaction: Transaction) -> str:
        known = self._terms.name_of(transaction.session, self._state.tree)
        begun = None if known else self._terms.elected(transaction)
        return known or (begun.name if begun is not None else session_name(transaction.session))

    def _role_ends(self, transaction: Transaction | None, who: str) -> None:
        term = self._terms.current
        if term is None:
            return
        session = None if transaction is None else transaction.session
        if transaction is not None and isinstance(transaction.content, CloseSession):
            text = f"its ZooKeeper session {_ENDED[transaction.session_end]}"
        elif session == UNKNOWN_SESSION:
            text = f"{znodes.CONTROLLER} was deleted"
        elif session == term.session:
            text = "it gave up the role"
        else:
            text = f"{znodes.CONTROLLER} was deleted by {who}, not by the controller"
        self._add(
            RoleChanged, code="resigned", broker=term.broker, is_kraft=term.is_kraft, text=text
        )

    def _broker(self, broker: int, one: _Operation, transaction: Transaction | None) -> None:
        if isinstance(one, SetData):
            return
        text = ""
        if isinstance(one, Delete):
            if transaction is None or not isinstance(transaction.content, CloseSession):
                text = "its registration was deleted"
            else:
                text = f"its ZooKeeper session {_ENDED[transaction.session_end]}"
        what = "gone" if isinstance(one, Delete) else "registered"
        self.requests.changed(broker)
        self._failures.changed(
            broker, "was lost" if what == "gone" else what, self.seq, self.wall_ns
        )
        self._add(BrokerChanged, broker=broker, what=what, text=text)

    def _deletion_request(self, path: str, one: _Operation, who: str) -> None:
        if isinstance(one, Create):
            text = f"{who} created {path}"
            topic = subject_of(path).topic or ""
            self._add(TopicChanged, code="topic_deletion_requested", topic=topic, text=text)

    def _topic(self, name: str, one: _Operation, who: str) -> None:
        if isinstance(one, Delete):
            text = f"{name} is deleted by {who}"
            self._add(TopicChanged, code="topic_deleted", topic=name, text=text)
            return
        if isinstance(one, Create):
            self._add(TopicChanged, code="topic_created", topic=name, text=f"by {who}")
        self._assignments(name, one.data, who)

    def _assignments(self, name: str, data: bytes | None, who: str) -> None:
        before = self._assignments_now(name)
        try:
            after = znodes.read_topic(name, data).assignments
        except ZnodeError:
            return
        for number, assignment in after.items():
            was = before.get(number, NO_ASSIGNMENT)
            if was != assignment and self._subject.covers(name, number):
                self._add(
                    AssignmentWritten,
                    partition=partition_name(name, number),
                    before=was,
                    after=assignment,
                    writer=who,
                )

    def _assignments_now(self, name: str) -> dict[int, Assignment]:
        znode = self.view.find(znodes.topic_path(name))
        try:
            return {} if znode is None else znodes.read_topic(name, znode.data).assignments
        except ZnodeError:
            return {}

    def covers_moves(self, znode: ZnodeSubject) -> bool:
        """Whether a record of a reassignment is about the partition in question."""
        return znode[2:] == (self._subject.topic, self._subject.partition)

    def cancelled_partitions(self) -> list[str]:
        """The partitions about whose moves /admin/reassign_cancel is noted: that in question."""
        topic, number = self._subject.topic, self._subject.partition
        return [] if topic is None or number is None else [partition_name(topic, number)]

    def _cancellation(self, one: _Operation, transaction: Transaction | None) -> None:
        known = self.view.find(REASSIGN_CANCEL)
        czxid = known.czxid if known is not None else -1
        how = "removed" if isinstance(one, Delete) else "changed"
        if isinstance(one, Create):
            how, czxid = "created", transaction.zxid if transaction is not None else -1
        for partition in self.cancelled_partitions():
            self._add(
                CancelZnodeObserved,
                partition=partition,
                how=how,
                czxid=czxid,
                is_forced=not isinstance(one, Delete) and is_forced(one.data),
            )

    def _record(self, path: str, partition: str, one: _Operation) -> None:
        if isinstance(one, Delete):
            self._add(RecordZnodeObserved, partition=partition, how="removed")
            return
        try:
            record = read_reassignment(path, one.data)
        except ZnodeError:
            return
        self._add(
            RecordZnodeObserved,
            partition=partition,
            how="written",
            target=record.replicas,
            originals=record.original_replicas,
            route=route_of(record),
        )

    def _new_request(self, path: str, data: bytes | None) -> None:
        try:
            request = read_request(path, data)
        except ZnodeError:
            return
        for (topic, number), target in request.assignments.items():
            if self._subject.is_about(topic, number) and not request.legacy:
                self._add(
                    ReassignmentRequested,
                    partition=partition_name(topic, number),
                    target=target,
                    route=znodes.REASSIGNMENT_REQUESTS,
                    request=path,
                )

    def _request(self, path: str, data: bytes | None) -> None:
        """Note the new entries. A controller that removes entries writes the others again."""
        znode = self.view.find(path)
        before = _entries(znode.data) if znode is not None else {}
        for (topic, number), target in _entries(data).items():
            if self._subject.is_about(topic, number) and before.get((topic, number)) != target:
                self._add(
                    ReassignmentRequested,
                    partition=partition_name(topic, number),
                    target=target,
                    route=path,
                )

    def _partition_state(
        self, path: str, key: tuple[str, int], one: Create | SetData, who: str
    ) -> None:
        if not self._subject.covers(*key):
            return
        version = one.version if isinstance(one, SetData) else 0
        before = state_of(self.view, *key)
        try:
            after = znodes.read_state(path, one.data, version)
        except ZnodeError:
            return
        if self._subject.covers_state(before, after):
            self._add(
                StateWritten,
                partition=partition_name(*key),
                before=before,
                after=after,
                writer=who,
            )

    def _add(self, kind: type[AnyFact], **fields: object) -> None:
        term = self._terms.current
        epoch = term.epoch if term is not None else 0
        self.facts.append(kind(seq=self.seq, wall_ns=self.wall_ns, epoch=epoch, **fields))  # type: ignore[arg-type]


def _replaces(event: ImportedEvent) -> bool:
    """Whether the transaction of an election also deletes /controller, as refold's does when it
    takes over from another controller."""
    if not isinstance(event, Transaction) or not isinstance(event.content, Multi):
        return False
    return any(isinstance(one, Delete) for one in event.content.operations)


def _entries(data: bytes | None) -> dict[tuple[str, int], tuple[int, ...]]:
    try:
        return dict(znodes.read_reassignments(data))
    except ZnodeError:
        return {}
