"""Notes facts about the moves of one partition, from events and commands.

These are the znodes of KIP-236, the cause of a rollback, its steps and the deletions of replicas.
`fact_observer` notes the writes of assignments and states.
"""

from collections.abc import Sequence

from msgspec import structs

from controller.core import znodes
from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.commands import (
    BrokerRequest,
    CommandId,
    Issued,
    ReadStats,
    StopReplicaRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.deviations import DELETIONS_REMEMBERED
from controller.core.errors import ZnodeError
from controller.core.events import BrokerResponded, WatchFired, ZnodesRead, ZnodesWritten
from controller.core.operations import NO_NODE, OK, Create, Delete, SetData
from controller.core.state import Partition
from controller.core.state_machines import ReplicaState
from controller.core.triggers import ApiCall
from controller.core.values import Assignment
from controller.core.znodes import (
    DELETION_PREFIX,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    Reassignment,
    deletion_path,
    is_forced,
    read_entries,
    read_reassignment,
    read_request,
    read_state,
    reassignment_path,
    state_path,
)
from replay.checkpoint import Checkpointed
from replay.description.events import request_in_words
from replay.description.phrases import broker_list
from replay.names import partition_name
from replay.parsed_znodes import is_request
from replay.subjects import paths_of_command
from replay.why.facts import (
    CancelZnodeObserved,
    Cause,
    MoveCancellation,
    MoveGivenUp,
    ReassignmentRequested,
    RecordZnodeObserved,
    ReplicaDeletionFact,
    RollbackStep,
)
from replay.why.noted_facts import API, KnownZnodes, NotedFacts
from replay.why.rollback_steps import RollbackSteps
from replay.why.sentences import cause_of_rollback


class MoveObserver(Checkpointed):
    """Adds facts about the moves of one partition to those of an observer."""

    STATE = (
        "_pending",
        "_deletions",
        "_steps",
        "_cause",
        "_created",
        "_extra_written",
        "_found_in_term",
        "_isr",
    )

    def __init__(self, observer: NotedFacts, topic: str, number: int) -> None:
        self._observer = observer
        self._key = (topic, number)
        self._partition = partition_name(topic, number)
        self._record_path = reassignment_path(topic, number)
        self._state_path = state_path(topic, number)
        self._pending: dict[CommandId, Issued] = {}
        self._deletions: dict[CommandId, int] = {}
        self._steps: RollbackSteps | None = None
        self._cause: MoveCancellation | None = None
        self._created: MoveCancellation | None = None
        self._extra_written: tuple[int, int] | None = None
        self._found_in_term: dict[str, int] = {}
        self._isr: tuple[int, ...] | None = None
        """The ISR that the current procedure has read in ZooKeeper."""

    @property
    def _known_znodes(self) -> KnownZnodes:
        return self._observer.known

    @property
    def cause(self) -> Cause | None:
        """The cause of the rollback that is under way; None if there is none."""
        running = self._observer.because
        if self._cause is None or running is None:
            return None
        if self._cause.by == API:
            return running
        return Cause(self._cause.seq, cause_of_rollback(self._cause), running.procedure)

    def procedure_ends(self) -> None:
        """All procedures have ended: a rollback that is not over by now does not continue."""
        self._pending.clear()
        self._steps = self._cause = self._isr = None

    # Events ---------------------------------------------------------------------------------------

    def on_watch(self, event: WatchFired) -> None:
        """A watch fired."""
        observer = self._observer
        if event.path == REASSIGN_PARTITIONS_EXTRA and event.change != "deleted":
            self._extra_written = (observer.seq, observer.wall_ns)
        elif event.path == REASSIGN_CANCEL:
            self._on_cancel_changed(event.change, event.zxid)

    def _on_cancel_changed(self, change: str, zxid: int) -> None:
        if change == "created":
            self._note_seen_in_term("cancel")
            self._created = self._known_znodes.cancellation = self._cancellation("created", zxid)
            self._add_cancel("created", zxid)
        elif change == "deleted":
            self._on_cancel_gone()
        else:
            czxid = self._known_znodes.cancellation.czxid if self._known_znodes.cancellation else -1
            self._add_cancel("changed", czxid)

    def on_broker_response(self, event: BrokerResponded) -> None:
        """A broker answered a request: perhaps the deletion of the partition's replica."""
        broker = self._deletions.pop(event.command, None)
        if broker is None:
            return
        errors = [
            code
            for topic, number, code in event.partition_errors
            if self._is_this_partition(topic, number)
        ]
        error = event.error or (errors[0] if errors else 0)
        what = "failed" if error else "confirmed"
        self._add_deletion(broker, what, error=error, because=None)

    def _add_deletion(self, broker: int, what: str, **fields: object) -> None:
        controller = self._observer.controller
        settings = controller.configuration
        self._observer.add(
            ReplicaDeletionFact,
            partition=self._partition,
            broker=broker,
            what=what,
            is_live=broker in controller.context.brokers,
            is_remembered=settings.has_kip_236 and DELETIONS_REMEMBERED.applies(settings),
            **fields,
        )

    def _is_this_partition(self, topic: str, number: int) -> bool:
        return (topic, number) == self._key

    # Commands -------------------------------------------------------------------------------------

    def issues(self, issued: Issued) -> None:
        """Note commands that write the znodes of a move or delete its replicas, until their
        outcomes."""
        if any(self._is_of_interest(path) for path in paths_of_command(issued.command)):
            self._pending[issued.id] = issued
        if isinstance(issued.command, StopReplicaRequest) and self._deletes(issued.command):
            self._deletions[issued.id] = issued.command.broker
        if self._steps is not None:
            self._steps.issues(issued)

    def _is_of_interest(self, path: str) -> bool:
        named = (REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA, self._record_path, self._state_path)
        return path in named or is_request(path)

    def _deletes(self, request: StopReplicaRequest) -> bool:
        """Whether a request deletes a replica of the partition for a move."""
        is_named = any(
            one.delete and self._is_this_partition(one.topic, one.partition)
            for one in request.partitions
        )
        return is_named and not self._is_of_tool(request.broker)

    def _is_of_tool(self, broker: int) -> bool:
        """Whether only `refold reassign --delete-strays` has requested the deletion of the replica,
        and no move: it is no part of the history of one."""
        if self._steps is not None:
            return False
        pending = self._observer.controller.context.deletions
        children = [
            child
            for child, one in pending.items()
            if one.broker == broker and self._key in one.names
        ]
        return bool(children) and all(
            deletion_path(one).startswith(DELETION_PREFIX) for one in children
        )

    def sends(self, requests: Sequence[BrokerRequest]) -> None:
        """A batch of requests is sent."""
        if self._steps is not None:
            self._steps.sends(requests)
        for one in requests:
            if isinstance(one, StopReplicaRequest) and self._deletes(one):
                self._add_deletion(one.broker, "asked")

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState
    ) -> None:
        """Replicas change their state. Only a broker that is alive is sent the deletion of one."""
        context = self._observer.controller.context
        if target is not ReplicaState.NON_EXISTENT or broker in context.brokers:
            return
        if any(one.key == self._key and not context.is_queued(one) for one in partitions):
            self._add_deletion(broker, "pending")

    def on_unconfirmed(self, broker: int) -> None:
        """The controller reports a broker that has not confirmed deletions."""
        pending = self._observer.controller.context.deletions.values()
        is_known = any(one.broker == broker and self._key in one.names for one in pending)
        if is_known and self._steps is None and not self._is_of_tool(broker):
            self._add_deletion(broker, "pending", because=None)

    def gives_up(self, partition: Partition, before: Assignment, after: Assignment) -> None:
        """Another assignment replaces that of a move under way."""
        is_rollback = self.is_rollback(before, after)
        self._cause = self.why_rolled_back(after.replicas) if is_rollback else None
        self._observer.add(
            MoveGivenUp,
            partition=self._partition,
            before=before,
            after=after,
            cancellation=self._cause,
            why_now=self._why_now(partition, after.replicas) if is_rollback else "",
        )
        if is_rollback:
            self._steps = RollbackSteps(partition, after.replicas, before, self._step)

    def _why_now(self, partition: Partition, originals: tuple[int, ...]) -> str:
        """Why a rollback that had to wait for original replicas does not wait any longer."""
        context, isr = self._observer.controller.context, self._isr
        if isr is None:
            isr = partition.leadership.isr if partition.leadership is not None else ()
        in_sync = [one for one in originals if one in isr and context.is_online(one, partition)]
        if not in_sync:
            return ""
        why = "the rollback is forced, and" if context.cancel_forced else "enough"
        return f"{why} original replicas are in sync: {broker_list(in_sync)}"

    def is_rollback(self, before: Assignment, after: Assignment) -> bool:
        """Whether a move goes back to its original replicas. That includes a move that another
        process has completed, if its record still exists."""
        if after.is_being_reassigned or set(before.target) == set(after.replicas):
            return False
        origins = [set(before.origin)] if before.is_being_reassigned else []
        if self._known_znodes.record is not None:
            origins.append(set(self._known_znodes.record.originals))
        return set(after.replicas) in origins

    def _step(self, step: int, text: str, command: str, is_empty: bool) -> None:
        self._observer.add(
            RollbackStep,
            partition=self._partition,
            step=step,
            text=text,
            command=command,
            is_empty=is_empty,
            is_numbered=self._observer.controller.configuration.has_kip_236,
        )

    # The cause of a rollback ----------------------------------------------------------------------

    def why_rolled_back(self, originals: tuple[int, ...] | None = None) -> MoveCancellation | None:
        """The request for the rollback that the current procedure begins."""
        trigger = self._observer.trigger
        request = trigger.request if isinstance(trigger, ApiCall) else None
        if isinstance(request, AlterPartitionReassignmentsReceived):
            for one in request.partitions:
                if self._is_this_partition(one.topic, one.partition):
                    text = request_in_words(request)
                    asked = self._cancellation("asked", by=API, asks_for=one.replicas, text=text)
                    return self._at_request(asked)
        created, because = self._created, self._observer.because
        if created is not None and because is not None and because.seq == created.seq:
            # The znode may have been removed since.
            return self._known_znodes.cancellation or created
        return self._known_znodes.cancellation or self._cancelling_request(originals)

    def _cancelling_request(self, originals: tuple[int, ...] | None) -> MoveCancellation | None:
        """An entry or a request that the current procedure has read."""
        observer = self._observer
        for one in reversed(observer.facts):
            if one.because != observer.because:
                continue
            if not isinstance(one, ReassignmentRequested) or one.partition != self._partition:
                continue
            if one.route == REASSIGN_PARTITIONS_EXTRA:
                seq, wall_ns = self._extra_written or (one.seq, one.wall_ns)
                return MoveCancellation(one.by, "asked", seq, wall_ns, asks_for=one.target)
            if originals is not None and set(one.target or ()) == set(originals):
                return MoveCancellation(one.by, "asked", one.seq, one.wall_ns, asks_for=one.target)
        return None

    def _cancellation(
        self,
        how: str,
        czxid: int = -1,
        by: str = REASSIGN_CANCEL,
        asks_for: tuple[int, ...] | None = None,
        text: str = "",
    ) -> MoveCancellation:
        observer = self._observer
        return MoveCancellation(by, how, observer.seq, observer.wall_ns, czxid, asks_for, text)  # type: ignore[arg-type]

    def _at_request(self, asked: MoveCancellation) -> MoveCancellation:
        """A cancellation by the API with the event of its request."""
        observer = self._observer
        if observer.because is None or observer.because.seq not in observer.received:
            return asked
        seq = observer.because.seq
        return structs.replace(asked, seq=seq, wall_ns=observer.received[seq])

    # Outcomes -------------------------------------------------------------------------------------

    def on_outcome(self, outcome: ZnodesRead | ZnodesWritten) -> None:
        """The outcome of a command is about to be folded."""
        asked = self._pending.get(outcome.command)
        if asked is None:
            return
        if isinstance(outcome, ZnodesWritten):
            self._on_written(asked, outcome)
            return
        paths = paths_of_command(asked.command)
        for place, error in enumerate(outcome.errors):
            path = paths[outcome.offset + place]
            if self._is_of_interest(path) and error in (OK, NO_NODE):
                self._on_read(path, outcome, place, isinstance(asked.command, ReadStats))

    def _on_read(self, path: str, outcome: ZnodesRead, place: int, is_stat: bool) -> None:
        data = outcome.data[place]
        exists = outcome.errors[place] == OK
        if path == REASSIGN_CANCEL:
            if not exists:
                self._on_cancel_gone()
            else:
                self._on_cancel_found(outcome.czxids[place])
                if not is_stat and is_forced(data):
                    self._on_cancel_forced()
        elif exists and not is_stat:
            self._on_content(path, data)

    def _on_content(self, path: str, data: bytes | None) -> None:
        try:
            if path == self._state_path:
                self._isr = read_state(path, data, 0).isr
            elif path == self._record_path:
                self._on_record_found(read_reassignment(path, data))
            elif path == REASSIGN_PARTITIONS_EXTRA:
                entry = read_entries(path, data).entries.get(self._key)
                if entry is not None:
                    self._observer.note_znode_request(self._partition, entry.replicas, path)
            else:
                request = read_request(path, data)
                target = request.assignments.get(self._key)
                # refold makes legacy requests from entries, which are noted themselves.
                if target is not None and not request.legacy:
                    self._observer.note_znode_request(
                        self._partition, target, znodes.REASSIGNMENT_REQUESTS, path
                    )
        except ZnodeError:
            return

    # /admin/reassign_cancel -----------------------------------------------------------------------

    def _on_cancel_found(self, czxid: int) -> None:
        known = self._known_znodes.cancellation
        if known is not None and known.czxid in (-1, czxid):
            if known.czxid == -1:
                self._add_czxid(known, czxid)
            elif self._note_seen_in_term("cancel"):
                self._add_cancel("found", czxid)
            return
        self._note_seen_in_term("cancel")
        self._observer.note_external_changes(*self._key)
        self._known_znodes.cancellation = self._cancellation("found", czxid)
        self._add_cancel("found", czxid)

    def _add_czxid(self, known: MoveCancellation, czxid: int) -> None:
        """Add the czxid, which servers before 3.9 do not send with the watch."""
        complete = structs.replace(known, czxid=czxid)
        self._known_znodes.cancellation = complete
        if self._created == known:
            self._created = complete
        self._replace_last(CancelZnodeObserved, czxid=czxid)

    def _on_cancel_gone(self) -> None:
        if self._known_znodes.cancellation is not None:
            czxid = self._known_znodes.cancellation.czxid
            self._known_znodes.cancellation = None
            self._add_cancel("removed", czxid)

    def _on_cancel_forced(self) -> None:
        noted = [one for one in self._observer.facts if isinstance(one, CancelZnodeObserved)]
        if noted and not noted[-1].is_forced:
            self._replace_last(CancelZnodeObserved, is_forced=True)

    def _replace_last(self, kind: type[CancelZnodeObserved], **fields: object) -> None:
        facts = self._observer.facts
        for place in range(len(facts) - 1, -1, -1):
            if isinstance(facts[place], kind):
                facts[place] = structs.replace(facts[place], **fields)
                return

    def _add_cancel(self, how: str, czxid: int) -> None:
        self._observer.add(
            CancelZnodeObserved, partition=self._partition, how=how, czxid=czxid, because=None
        )

    def _note_seen_in_term(self, what: str) -> bool:
        """Note that a znode was seen; returns whether it is the first time in this term."""
        epoch = self._observer.controller.context.epoch
        is_first = self._found_in_term.get(what) != epoch
        self._found_in_term[what] = epoch
        return is_first

    # /admin/reassignments/$topic/$partition -------------------------------------------------------

    def _on_record_found(self, record: Reassignment) -> None:
        if not self._note_seen_in_term("record"):
            return
        self._observer.note_external_changes(*self._key)
        self._note_record("found", record)

    def _on_written(self, issued: Issued, outcome: ZnodesWritten) -> None:
        assert isinstance(issued.command, WriteZnodes | WriteAtomically), "only writes are written"
        for place, error in enumerate(outcome.errors):
            operation = issued.command.operations[outcome.offset + place]
            if operation.path != self._record_path or error not in (OK, NO_NODE):
                continue
            if isinstance(operation, Delete):
                self._known_znodes.record = None
                self._observer.add(RecordZnodeObserved, partition=self._partition, how="removed")
            elif error == OK and isinstance(operation, SetData | Create):
                self._note_seen_in_term("record")
                self._note_record("written", read_reassignment(operation.path, operation.data))

    def _note_record(self, how: str, record: Reassignment) -> None:
        self._observer.add(
            RecordZnodeObserved,
            partition=self._partition,
            how=how,
            target=record.replicas,
            originals=record.original_replicas,
            route=route_of(record),
        )
        noted = self._observer.facts[-1]
        assert isinstance(noted, RecordZnodeObserved), "the record was just added"
        self._known_znodes.record = noted


def route_of(record: Reassignment) -> str:
    """The znode or API by which a move was requested."""
    if record.api:
        return API
    return znodes.REASSIGN_PARTITIONS if record.legacy else znodes.REASSIGNMENT_REQUESTS
