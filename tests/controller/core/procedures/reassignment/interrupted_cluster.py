"""A cluster that checks, at each write and at rest, the invariants of interrupted reassignments."""

from typing import Any

from msgspec.structs import replace

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.commands import (
    BrokerRequest,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.error_codes import KAFKA_STORAGE_ERROR
from controller.core.operations import SetData
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.procedures.reassignment.replica_deletion import TIMER as DELETION_TIMER
from controller.core.values import NO_LEADER, Assignment
from controller.core.znodes import (
    REASSIGN_CANCEL,
    Reassignment,
    reassignment_path,
    write_reassignment,
)
from replay.world.messages import PartitionError
from replay.world.requests import Exists
from tests.controller.core.cluster import Assignments, Cluster
from tests.controller.core.endpoint import proposal
from tests.controller.core.procedures.elections.electing import configure_quietly
from tests.controller.core.procedures.reassignment.dropping import recorded, strays
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    cancel_all,
    cancel_briefly,
    cancel_quietly,
    entries,
    force_all,
    record,
    records,
    remove_cancel,
    request,
    submit,
    submit_extra,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    assert_no_failures,
    reassigning,
)
from tests.controller.core.unreliable import Delivery

BROKERS = (1, 2, 3, 4, 5)
NAMES: tuple[Name, ...] = (("t", 0), ("u", 0))
TOPICS: dict[str, Assignments] = {"t": {0: [1, 2]}, "u": {0: [3]}}
MIN_INSYNC = {"t": 2, "u": 1}
UNCLEAN = "u"
"""This topic allows unclean leaders."""
CHANGED_RECORD = (b"garbage", write_reassignment(Reassignment((5, 4), 1, True, (4, 5))), None)
"""Content that a client writes to a record. None deletes the record."""

CHANGED_TOPIC = (
    b"garbage",
    *map(
        znodes.write_topic,
        (
            znodes.TopicContent(),
            znodes.TopicContent({0: Assignment((5, 4))}),
            znodes.TopicContent({0: Assignment((4, 1, 5), (4,), (5,))}),
        ),
    ),
)
"""Content that a client writes to a topic's znode during the move."""

Step = tuple[Any, ...]


class InterruptedCluster(Cluster):
    """Five brokers and two partitions. `rested` are their last assignments at rest."""

    def __init__(self, protocol: str) -> None:
        super().__init__(*BROKERS, inter_broker_protocol_version=protocol, kip_236_enable=True)
        self._asks = self.fold.controller.protocol.has_alter_partition
        self._alive = dict.fromkeys(BROKERS, True)
        self._failing: dict[tuple[int, Name], None] = {}
        self._requests = 0
        self.broker_errors = self._errors
        self.before = self._check_command
        content = {"version": 1, "config": {"unclean.leader.election.enable": "true"}}
        configure_quietly(self, f"topics/{UNCLEAN}", content)
        content = {"version": 1, "config": {"min.insync.replicas": str(MIN_INSYNC["t"])}}
        configure_quietly(self, "topics/t", content)
        self.start()
        for topic, partitions in TOPICS.items():
            self.create_topic(topic, partitions)
        self.rested: dict[Name, tuple[int, ...]] = {("t", 0): (1, 2), ("u", 0): (3,)}
        self._looked_at = len(self.history)

    def step(self, step: Step) -> None:
        """One event."""
        match step:
            case ("submit", wanted):
                submit(self, wanted)
            case ("extra", wanted):
                submit_extra(self, wanted)
            case ("request", wanted):
                request(self, wanted)
            case ("api", name, target):
                wanted = ReassignmentTarget(*name, None if target is None else tuple(target))
                self._call(AlterPartitionReassignmentsReceived, 0, [wanted])
            case ("cancel",):
                cancel_all(self)
            case ("force",):
                force_all(self)
            case ("remove cancel",):
                remove_cancel(self)
            case ("cancel briefly",) if self.fold.is_idle and not self.is_cancelled:
                self._cancel_briefly()
            case ("cancel, then submit", wanted) if self.fold.is_idle and not self.is_cancelled:
                self._cancel_then_submit(wanted)
            case ("isr", name, wanted):
                self.change_isr(name, wanted)
            case ("toggle", broker):
                self._toggle(broker)
            case ("stop originals", name):
                for broker in self.rested[name]:
                    self._turn(broker, alive=False)
            case ("start originals", name):
                for broker in self.rested[name]:
                    self._turn(broker, alive=True)
            case ("stop leader", name):
                self._turn(self.leadership(*name).leader, alive=False)
            case ("desert", name):
                self._lose_removed_replicas(name)
            case ("bounce", broker) if self._alive[broker]:
                self.bounce(broker)
            case ("slow", who):
                self.is_slow = lambda request: request.broker in who
                self.answer_slow()
            case ("answer", number):
                self._answer_one(number)
            case ("late",):
                self._let_time_pass()
            case ("fail", broker, name):
                self._failing[broker, name] = None
            case ("change record", *changed) if self.fold.is_idle:
                self._change_by_client(*changed)
            case ("change topic", name, data) if self.fold.is_idle and name in reassigning(self):
                # If the term ends before the repair, the next controller does not know the previous
                # content.
                self.delivery = lambda issued: Delivery.ANSWERED
                self.put(znodes.topic_path(name[0]), data)
            case ("lose", number, delivery):
                self.lose(nth_write(number), delivery)
            case ("expire",):
                self.expire()
            case ("seize", deletes):
                self._seize(deletes=deletes)
            case ("complete elsewhere", name) if self.fold.is_idle and name in reassigning(self):
                self._complete_elsewhere(name)

    def _call(self, kind: Any, *fields: Any) -> None:
        """Receive a request, which may be answered much later."""
        self._requests += 1
        self.happen(kind(self._requests, *fields), "api:1")

    # Slow and failing brokers

    def _errors(self, request: BrokerRequest) -> list[PartitionError]:
        """The response for a replica in a failed log directory."""
        found: list[PartitionError] = []
        for broker, (topic, number) in self._failing:
            if broker == request.broker and not isinstance(request, UpdateMetadataRequest):
                topic_id = self.topic(topic).topic_id
                by_id = [] if topic_id is None else [topic_id.hex()]
                found += [(one, number, KAFKA_STORAGE_ERROR) for one in (topic, *by_id)]
        return found

    def _answer_one(self, number: int) -> None:
        """One request to a slow broker is answered. A broker answers in order."""
        if self._slow:
            broker = self._slow[number % len(self._slow)][0].broker
            answered = next(one for one in self._slow if one[0].broker == broker)
            waiting, self._slow = [one for one in self._slow if one is not answered], [answered]
            self.answer_slow()
            self._slow = waiting + self._slow

    def _let_time_pass(self) -> None:
        """Brokers have had their time to confirm deletions."""
        for _ in range(2):
            self.fire(DELETION_TIMER)

    def settle(self) -> None:
        """All brokers answer from now on, and no request is lost."""
        self.delivery = lambda issued: Delivery.ANSWERED
        self.is_slow = lambda request: False
        self.answer_slow()
        self._let_time_pass()

    def is_online(self, broker: int, name: Name) -> bool:
        """Whether a replica is alive, as far as the controller was notified."""
        return self._alive.get(broker, False) and self.fold.controller.context.is_online(
            broker, self.partition(*name)
        )

    # Actions of other clients

    def _change_by_client(self, *changed: Any) -> None:
        """A client changes or deletes a record, or the entries, before the next event."""
        match changed:
            case (data,):
                path = znodes.REASSIGN_PARTITIONS
            case (name, data):
                path = reassignment_path(*name)
        if self.data(path) is None:
            return
        if data is None:
            self.remove_quietly(path)
        else:
            self.put_quietly(path, data)
        self.fire(rebalance_timer(self.fold.controller))

    def _cancel_briefly(self) -> None:
        """/admin/reassign_cancel is created and deleted before the controller reads it. In the same
        term, all entries under way are rolled back, or the log says why one is not."""
        seen, epoch = self.seen(), self.epoch()
        moving = [
            name for name in NAMES if self._moves_by_entry(name) and name in (entries(self) or {})
        ]
        cancel_briefly(self)
        self.run()
        if self.epoch() == epoch and self.fold.is_idle:
            assert seen.texts_of("reassignments_cancelled")
            codes = ("reassignment_rolled_back", "reassignment_not_cancelled", "rollback")
            subjects = [one.subject for one in seen.commands if getattr(one, "code", "") in codes]
            for topic, number in moving:
                assert any(f"{topic}-{number}" in one for one in subjects), f"{topic}: {subjects}"

    def _cancel_then_submit(self, wanted: dict[Name, list[int]]) -> None:
        """Entries that are written after /admin/reassign_cancel stay in the znode and wait."""
        seen, epoch = self.seen(), self.epoch()
        new = [name for name in wanted if not self._moves_by_entry(name)]
        cancel_quietly(self)
        submit_quietly(self, wanted)
        self.run()
        if self.epoch() == epoch and self.fold.is_idle:
            assert set(new) <= (entries(self) or {}).keys()
            assert not seen.texts_of("reassignment_cancelled")

    def _moves_by_entry(self, name: Name) -> bool:
        one = record(self, name)
        return one is not None and one.legacy

    def _seize(self, *, deletes: bool) -> None:
        """A stock broker takes the role. It may delete entries, which it cannot read."""
        session = self.seize_role(9)
        self.run()
        found = entries(self) or {}
        if deletes and any(one.original_replicas is not None for one in found.values()):
            self.remove_quietly(znodes.REASSIGN_PARTITIONS)
        self.leave_role(session)

    def _complete_elsewhere(self, name: Name) -> None:
        """A stock broker takes the role, and completes the move of a partition if it can. It keeps
        the entry, the request and the record. The move must not be undone."""
        content, before = self.topic(name[0]), len(self.history)
        stored: Assignment = content.assignments[name[1]]
        if not all(self.is_online(one, name) for one in stored.replicas):
            return
        with OtherControllersTerm(self):
            state = self.leadership(*name)
            leader = state.leader if state.leader in stored.target else stored.target[0]
            changed = replace(
                state,
                leader=leader,
                leader_epoch=state.leader_epoch + 1,
                isr=stored.target,
                controller_epoch=self.epoch(),
            )
            self.put_quietly(znodes.state_path(*name), znodes.write_state(changed))
            completed = replace(content, assignments={name[1]: Assignment(stored.target)})
            self.put_quietly(znodes.topic_path(name[0]), znodes.write_topic(completed))
            stopped = StopReplicaPartition(*name, changed.leader_epoch, True)
            for one in stored.removing:
                epoch = self.broker_epoch(one)
                delete = StopReplicaRequest(one, epoch, 3, 9, self.epoch(), (stopped,))
                self.broker(one).answer(delete, ())
        since = (issued.command for _, decided in self.history[before:] for issued in decided)
        undone = [one for one in since if isinstance(one, Notice) and one.code == "rollback"]
        assert f"{name[0]}-{name[1]}" not in {one.subject for one in undone}

    def _toggle(self, broker: int) -> None:
        self._alive[broker] = not self._alive[broker]
        if self._alive[broker]:
            self.start_broker(broker)
        else:
            self.stop_broker(broker)

    def _turn(self, broker: int, *, alive: bool) -> None:
        if self._alive.get(broker, alive) is not alive:
            self._toggle(broker)

    def _lose_removed_replicas(self, name: Name) -> None:
        """All but one target have caught up, and the brokers of removed replicas die."""
        self.change_isr(name, set(BROKERS) - {self.partition(*name).assignment.target[-1]})
        for broker in self.partition(*name).assignment.removing:
            self._turn(broker, alive=False)

    def change_isr(self, name: Name, wanted: set[int]) -> None:
        """A live leader requests an ISR of live replicas, itself included."""
        state = self.leadership(*name)
        replicas = self.partition(*name).replicas
        if not self.is_online(state.leader, name):
            return
        isr = [one for one in replicas if self.is_online(one, name) and one in wanted]
        in_sync = (state.leader, *(one for one in isr if one != state.leader))
        if self._asks:
            asked = proposal(self, *name, isr=in_sync, by_id=True, recovery_state=0)
            epoch = self.broker_epoch(state.leader)
            self._call(AlterPartitionReceived, 3, state.leader, epoch, [asked])
        else:
            self.set_isr(*name, in_sync)
            self.run()

    def _check_command(self, issued: Issued) -> None:
        """Every write respects a cancellation, and no needed replica is deleted."""
        if isinstance(issued.command, LeaderAndIsrRequest):
            for part in issued.command.partitions:
                assert set(part.leadership.isr) <= set(part.assignment.replicas)
        if isinstance(issued.command, StopReplicaRequest) and issued.term == self.epoch():
            deleted = [one for one in issued.command.partitions if one.delete]
            for name in ((one.topic, one.partition) for one in deleted):
                assert issued.command.broker not in self.partition(*name).replicas
                assert issued.command.broker not in self.leadership(*name).isr
        if isinstance(issued.command, WriteZnodes):
            for choice in issued.reason.choices:
                known = self.fold.controller.context.reassignments
                found = [one for one in known if one.key == (choice.topic, choice.partition)]
                for partition in found:
                    self._check_write(issued, issued.command, partition.key, known[partition])

    def _check_write(
        self, issued: Issued, command: WriteZnodes, name: Name, under_way: Reassignment
    ) -> None:
        path = znodes.state_path(*name)
        [new] = [
            znodes.read_state(path, one.data, 0)
            for one in command.operations
            if isinstance(one, SetData) and one.path == path
        ] or [None]
        if new is None:
            return
        old, originals = self.leadership(*name), under_way.original_replicas
        lives = [one for one in old.isr if self.is_online(one, name)]
        if issued.reason.rule == "rollback: leader among the originals":
            kept = [one for one in new.isr if self.is_online(one, name)]
            is_forced = self.fold.controller.context.cancel_forced
            least = min(1 if is_forced else MIN_INSYNC[name[0]], len(originals))
            stored = self.topic(name[0]).assignments[name[1]]
            if set(stored.replicas) - set(originals):
                assert len(kept) >= least, f"{old.isr} becomes {new.isr}"
            assert new.leader in originals
        is_elected = new.leader not in (NO_LEADER, old.leader)
        if is_elected and under_way.legacy and self.is_cancelled and new.leader not in originals:
            assert new.leader in old.isr
            assert not any(one in originals for one in lives)

    def check(self) -> None:
        """Check the whole cluster. No work may be under way."""
        assert self.fold.is_idle
        assert self.is_active
        assert_no_failures(self)
        ended = self._ended()
        known = self.fold.controller.context.reassignments
        assert sorted(one.key for one in known) == sorted(records(self))
        for partition, one in known.items():
            assert record(self, partition.key) == one
        assert (self.fold.controller.context.cancel != 0) is self.is_cancelled
        for name in NAMES:
            self._check_partition(name, ended[name])
        assert strays(self, NAMES) <= recorded(self)

    def _ended(self) -> dict[Name, list[tuple[int, ...]]]:
        """The stored states of each partition since the last check without a reassignment. One
        reassignment may have ended and the next started."""
        ended: dict[Name, list[tuple[int, ...]]] = {name: [] for name in NAMES}
        history, self._looked_at = self.history[self._looked_at :], len(self.history)
        kinds = WriteZnodes | WriteAtomically
        commands = (issued.command for _, decided in history for issued in decided)
        written = (one for each in commands if isinstance(each, kinds) for one in each.operations)
        for operation in written:
            topic = operation.path.removeprefix(znodes.topic_path(""))
            if topic in TOPICS and isinstance(operation, SetData):
                stored = znodes.read_topic(topic, operation.data).assignments[0]
                if not stored.is_being_reassigned:
                    ended[topic, 0].append(stored.replicas)
        return ended

    @property
    def is_cancelled(self) -> bool:
        """Whether /admin/reassign_cancel exists."""
        return self.ask(Exists(REASSIGN_CANCEL)).error == 0

    def _check_partition(self, name: Name, ended: list[tuple[int, ...]]) -> None:
        topic, number = name
        stored: Assignment = self.topic(topic).assignments[number]
        partition, state = self.partition(*name), self.leadership(*name)
        assert stored == partition.assignment
        assert stored.target
        assert set(state.isr) <= set(stored.replicas)
        assert self.is_online(state.leader, name) or state.leader == NO_LEADER
        assert state.leader in state.isr or not any(self.is_online(one, name) for one in state.isr)
        assert set(partition.replica_states) == set(stored.replicas)
        under_way = record(self, name)
        if under_way is not None:
            if under_way.original_replicas in ended:
                self.rested[name] = under_way.original_replicas
            assert under_way.original_replicas == self.rested[name]
            assert under_way.top == len(self.rested[name])
            assert stored.target == under_way.replicas
            assert set(self.rested[name]) <= set(stored.replicas)
        elif stored.is_being_reassigned:
            assert name in reassigning(self)
        else:
            assert name not in reassigning(self)
            self.rested[name] = stored.replicas

    def assert_waits(self, name: Name, originals: tuple[int, ...]) -> None:
        """The rollback cannot be carried out, and that was reported."""
        notices = [
            issued.command
            for issued in self.commands()
            if isinstance(issued.command, Notice) and issued.command.code == "rollback_waits"
        ]
        assert any(f"{name[0]}-{name[1]}" in one.subject for one in notices)
        isr, replicas = self.leadership(*name).isr, self.partition(*name).replicas
        others = set(replicas) - set(originals)
        in_sync = [one for one in isr if one in originals and self.is_online(one, name)]
        assert len(in_sync) < min(MIN_INSYNC[name[0]], len(originals))
        assert others
        if name[0] == UNCLEAN and not any(self.is_online(one, name) for one in isr):
            assert not any(self.is_online(one, name) for one in originals)

    def restore_all_brokers(self) -> None:
        """Every broker returns, and leaders add all replicas to the ISR."""
        failed, self._failing = dict.fromkeys(broker for broker, _ in self._failing), {}
        for broker in failed:
            if self._alive[broker]:
                self.bounce(broker)
        for broker in BROKERS:
            if not self._alive[broker]:
                self._toggle(broker)
        for _ in range(4):
            for name in NAMES:
                self.change_isr(name, set(BROKERS))

    def assert_no_unclean_leader(self) -> None:
        """For topics that do not allow one."""
        choices = [one for issued in self.commands() for one in issued.reason.choices]
        assert {one.topic for one in choices if one.code == "unclean leader"} <= {UNCLEAN}


def nth_write(number: int) -> Any:
    """A predicate that matches the nth write."""
    left, kinds = iter(range(number)), WriteZnodes | WriteAtomically
    return lambda issued: isinstance(issued.command, kinds) and next(left, None) is None
