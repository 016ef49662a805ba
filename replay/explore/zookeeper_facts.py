"""Turns the transactions of ZooKeeper into facts for the invariants."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from controller.core import znodes
from controller.core.topic_configs import UNCLEAN, is_true
from controller.core.values import Assignment
from controller.core.znodes import Name
from replay.explore.invariants.invariant import AssignmentWrite, StateWrite
from replay.explore.invariants.known_cluster import (
    BELOW_ADMIN,
    KnownCluster,
    KnownTopic,
    RequestedTargets,
    without_controller,
)
from replay.names import broker_name
from replay.parsed_znodes import (
    is_request,
    parsed_config,
    parsed_entries,
    parsed_epoch,
    parsed_request,
    parsed_state,
    parsed_topic,
)
from replay.subjects import ZnodeSubject, subject_of
from replay.world.processes import is_controller
from replay.world.zookeeper import ZooKeeper
from replay.znode_tree.tree import Znode

_CONFIGS: Final = f"{znodes.CONFIGS}/"
_USER_CONFIGS: Final = f"{znodes.USER_CONFIGS}/"


class ZooKeeperFacts:
    """Keeps `KnownCluster` up to date. `of` returns the methods of the invariants that need a
    fact."""

    def __init__(
        self, known: KnownCluster, state: ZooKeeper, of: Callable[[str], list[Any]]
    ) -> None:
        self._known = known
        self._state = state
        self._state_zxids: dict[Name, int] = {}
        self._registration_zxids: dict[int, int] = {}
        """The latest registration of each broker, also of one that has gone again."""
        self._state_written = of("state_written")
        self._assignment_written = of("assignment_written")
        self._partitions_removed = of("partitions_removed")
        self._topic_id_written = of("topic_id_written")
        self._topic_id_removed = of("topic_id_removed")
        self._epoch_written = of("epoch_written")
        self._topic_deleted = of("topic_deleted")
        self._admin_written = of("admin_written")
        self._producer_ids_written = of("producer_ids_written")
        self._user_written = of("user_written")
        self._transaction_ended = of("transaction_ended")
        self.term_begins: Callable[[str], None] = lambda process: None
        """Called when a process has stored a controller epoch."""

    def load(self) -> None:
        """The state at the start of the run, which is not checked."""
        known = self._known
        loaded = self._state.dump().items()
        # A topic's configuration counts from the beginning of the topic.
        for path, node in sorted(loaded, key=lambda one: not one[0].startswith(_CONFIGS)):
            self._znode_changed("", path, node)
        for topic in known.topics.values():
            for number, assignment in topic.assignments.items():
                if assignment.is_being_reassigned:
                    known.requests_of((topic.name, number)).add(assignment.target)

    def on_commit(self, process: str, changes: Sequence[tuple[str, str]]) -> None:
        """A transaction was committed."""
        for change, path in changes:
            self._znode_changed(
                process, path, None if change == "deleted" else self._state.find(path)
            )
        for check in self._transaction_ended:
            check()

    def _znode_changed(self, process: str, path: str, node: Znode | None) -> None:
        match subject_of(path):
            case ZnodeSubject(kind="state", topic=str() as topic, partition=int() as number):
                self._state_changed(process, path, (topic, number), node)
            case ZnodeSubject(kind="topic", topic=str() as topic):
                self._topic_changed(process, topic, node)
            case ZnodeSubject(kind="broker", broker=int() as broker):
                self._registration_changed(process, broker, node)
            case ZnodeSubject(kind="topic config" | "broker config", topic=topic):
                self._configuration_changed(path, topic, node)
            case _ if path.startswith(BELOW_ADMIN):
                self._admin_changed(process, path, node)
            case _ if path == znodes.broker_config_path(None):
                self._configuration_changed(path, None, node)
            case _ if path.startswith(_USER_CONFIGS):
                self._user_changed(process, path, node)
            case _ if path == znodes.PRODUCER_IDS:
                for check in self._producer_ids_written:
                    check(node.data if node is not None else None, process)
            case _ if path == znodes.CONTROLLER:
                content = znodes.read_controller(node.data) if node is not None else None
                self._known.controller = content.brokerid if content is not None else None
            case _ if path == znodes.CONTROLLER_EPOCH and node is not None:
                self._epoch_changed(process, node)

    def _epoch_changed(self, process: str, node: Znode) -> None:
        epoch, before = parsed_epoch(node.data), self._known.epoch
        if epoch is not None:
            self._known.epoch = epoch
            # A new term begins, also if the same controller is elected again.
            self._known.granted.pop(process, None)
            self.term_begins(process)
            self._known.losses.controller_elected(is_kafka=self._known.is_kafka(process))
            for check in self._epoch_written:
                check(before, epoch, process)

    def _configuration_changed(self, path: str, topic: str | None, node: Znode | None) -> None:
        known = self._known
        config = parsed_config(path, node.data if node is not None else None)
        known.configs.setdefault(path, [{}]).append(config)
        is_unclean = is_true(config.get(UNCLEAN))
        if topic is not None:
            if is_unclean:
                known.allows_unclean[topic] = None
            self._note_unclean((topic,))
            return
        known.allows_unclean_by_default = known.allows_unclean_by_default or is_unclean
        self._note_unclean(known.topics)

    def _user_changed(self, process: str, path: str, node: Znode | None) -> None:
        contents = self._known.configs.setdefault(path, [{}])
        contents.append(parsed_config(path, node.data if node is not None else None))
        for check in self._user_written:
            check(path, contents[-2], contents[-1], process)

    def _note_unclean(self, topics: Iterable[str]) -> None:
        """Of some topics, those without an override are allowed what the default allows. A
        controller may learn late that the default has changed, so the default counts until the
        end."""
        known = self._known
        if known.allows_unclean_by_default:
            for topic in topics:
                if known.settings(znodes.topic_config_path(topic), UNCLEAN)[-1] is None:
                    known.allows_unclean[topic] = None

    def _registration_changed(self, process: str, broker: int, node: Znode | None) -> None:
        known = self._known
        before = known.brokers.get(broker)
        known.unregistered_by_tools.pop(broker, None)
        if node is None:
            if process not in ("", broker_name(broker)):
                known.unregistered_by_tools[broker] = None
            known.brokers.pop(broker, None)
            known.losses.failed(broker)
        elif node.czxid != before:
            known.brokers[broker] = self._registration_zxids[broker] = node.czxid
            known.broker_epochs.setdefault(broker, {})[node.czxid] = None
            known.losses.registered(broker)

    def _state_changed(self, process: str, path: str, name: Name, node: Znode | None) -> None:
        known = self._known
        if node is None:
            known.states.pop(name, None)
            return
        after = parsed_state(path, node.data, node.version)
        if after is None:
            return
        before = known.states.get(name)
        isr_zxid = self._state_zxids.get(name, 0)
        known.states[name], self._state_zxids[name] = after, node.mzxid
        known.past_states.setdefault(name, {})[without_controller(after)] = None
        if before is not None and after.leader >= 0 and after.leader not in before.isr:
            known.losses.unclean(name, after.leader_epoch)
        assignment = known.assignment(name)
        kept = (
            self._replicas_to_keep(process, name, assignment, after.isr)
            if assignment is not None
            else ()
        )
        by_controller = before is None or after.leader_epoch != before.leader_epoch
        epoch = after.leader_epoch
        known.losses.isr_stored(name, epoch, after.isr, kept, by_controller=by_controller)
        if not process:
            return
        in_sync = before.isr if before is not None else ()
        restarted = tuple(one for one in in_sync if self._registration_zxids.get(one, 0) > isr_zxid)
        topic = known.topics.get(name[0])
        write = StateWrite(name, topic, before, after, process, is_controller(process), restarted)
        for check in self._state_written:
            check(write)

    def _replicas_to_keep(
        self, process: str, name: Name, assignment: Assignment, isr: Sequence[int]
    ) -> Sequence[int]:
        """The replicas that a controller removes from the ISR only for a failure.

        A broker in controlled shutdown asks for it, and the controller grants it if it knows the
        other members to be live (KB 9.5 step 8). The rollback of a reassignment removes the
        replicas that were added (docs/kip-236-design.md), as does a request for other replicas.
        """
        requests = self._known.requests.get(name)
        requested = requests.targets[-1] if requests is not None and requests.targets else ()
        if self._known.is_cancelled(name):
            requested = ()
        stays = {*assignment.replicas} - {*assignment.adding} | {*requested}
        target = tuple(one for one in assignment.target if one in stays)
        live = self._known.live_brokers_of(process)
        if live is None or any(one not in live for one in isr):
            return target
        leaving = self._known.shutting_down_of(process)
        return [one for one in target if one not in leaving]

    def _topic_changed(self, process: str, name: str, node: Znode | None) -> None:
        known = self._known
        topic = known.topics.get(name)
        if node is None:
            if topic is not None:
                for check in self._topic_deleted:
                    check(topic)
                del known.topics[name]
                for number in topic.assignments:
                    known.losses.forget((name, number))
                    known.requests.pop((name, number), None)
            return
        content = parsed_topic(name, node.data)
        if content is None:
            return
        if topic is None:
            topic = known.topics[name] = KnownTopic(name, node.czxid)
            self._note_unclean((name,))
        before, topic.assignments = topic.assignments, content.assignments
        had_id, topic.has_id = topic.has_id, content.topic_id is not None
        if had_id and not topic.has_id and is_controller(process):
            for check in self._topic_id_removed:
                check(topic, process)
        if content.topic_id is not None:
            id_before, topic.id = topic.id, content.topic_id
            if id_before not in (None, topic.id) and not known.knows_topic_id(process, name):
                topic.has_lost_id = True
            for check in self._topic_id_written:
                check(topic, id_before, content.topic_id)
        self._assignments_changed(process, topic, before)

    def _assignments_changed(
        self, process: str, topic: KnownTopic, before: dict[int, Assignment]
    ) -> None:
        known = self._known
        removed = [number for number in before if number not in topic.assignments]
        if removed and process:
            for check in self._partitions_removed:
                check(topic, removed, process)
        for number, after in topic.assignments.items():
            earlier = before.get(number)
            if earlier == after:
                continue
            name = (topic.name, number)
            topic.assigned(number, earlier, by_controller=is_controller(process))
            if known.is_assigned_by_tool(name):
                known.changed_by_tools[name] = None
            write = AssignmentWrite(name, topic, earlier, after, process)
            for check in self._assignment_written:
                check(write)

    def _admin_changed(self, process: str, path: str, node: Znode | None) -> None:
        known = self._known
        data = node.data if node is not None else None
        if node is None:
            known.admin.pop(path, None)
            known.made_by_clients.pop(path, None)
        else:
            if path not in known.admin and process and not known.is_refold(process):
                known.made_by_clients[path] = None
            known.admin[path] = node.data
        if path == znodes.REASSIGN_CANCEL:
            known.was_cancelled = True
            known.cancel = node.czxid if node is not None else 0
        entries = {}
        if path in (znodes.REASSIGN_PARTITIONS, znodes.REASSIGN_PARTITIONS_EXTRA):
            entries = parsed_entries(path, data)
        elif is_request(path):
            entries = parsed_request(path, data).assignments
        for name, replicas in entries.items():
            requests: RequestedTargets = known.requests_of(name)
            if not known.is_refold(process):
                requests.submitted += 1
            requests.add(replicas)
            if path == znodes.REASSIGN_PARTITIONS_EXTRA:
                # An entry for a partition that is being reassigned rolls that back first.
                requests.is_cancelled = True
        for check in self._admin_written:
            check(path, data, process)
