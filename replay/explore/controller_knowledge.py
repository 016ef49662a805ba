"""The knowledge of each controller: the deliveries of ZooKeeper and brokers, and its own responses.

The invariants judge a controller by this, not by its own state: a controller whose state is wrong
could excuse itself otherwise. A controller uses what was delivered step by step, so that two
responses are kept until it has handled all its events: what it must know, and what it may know.

A standby reads registrations and the cancellation before its term begins, and not again. Until the
controller reads them in its term, its own state counts.

Other facts are the controllers' own: whether they have the role, whether they have handled all
their events, and which lists they know. They excuse nothing: a controller that is wrong about them
violates `controller-active`, `procedures-ended` or `read-lists-known`.
"""

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from controller.core import znodes
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.commands import (
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    ReadChildren,
    ReadStats,
    ReadZnodes,
)
from controller.core.error_codes import KAFKA_STORAGE_ERROR
from controller.core.errors import ZnodeError
from controller.core.events import BrokerResponded, ChildrenRead, Recorded, ZnodesRead
from controller.core.operations import NO_NODE, OK
from controller.core.znodes import Name
from replay.explore.invariants.known_cluster import KnownCluster, LeaderCandidates
from replay.world.processes import id_in, is_refold

_IDS: Final = f"{znodes.BROKER_IDS}/"
_Key = tuple[int, Name]
_Brokers = tuple[dict[int, int], dict[int, int]]
"""Registrations that a controller has read last, and those before, each with its czxid."""


class _View:
    """The deliveries to a controller in its term.

    - `brokers`: the registrations that it has read last, with their czxids; None: not in this term
    - `before`: those that it had read before, until it has handled all its events
    - `standing_by`: those that it had read when its term began, if it was a standby
    - `is_following`: it is a standby before its first term, and reads the registrations that have
      changed together with other znodes
    - `cancel`: the czxid of /admin/reassign_cancel; None: not read in this term
    - `failed`: replicas in failed log directories, each with the epoch of its broker and the czxid
      of its topic
    - `unsure`: those of them about which the controller has not handled the last response yet, with
      whether the directory has failed
    - `carried`: replicas that were in `unsure` when the term before ended. The controller handles
      such a response in the next term if it did not in the last one
    - `open_commands`: the reads and requests whose outcomes it waits for
    """

    def __init__(self, carried: Iterable[_Key] = (), *, is_following: bool = False) -> None:
        self.is_following = is_following
        self.open_commands: dict[CommandId, object] = {}
        self.listed: list[str] | None = None
        """The paths of the registrations that are to be read."""
        self.reading: dict[int, int] = {}
        self.brokers: dict[int, int] | None = None
        self.before: dict[int, int] = {}
        self.standing_by: dict[int, int] | None = None
        self.cancel: int | None = None
        self.failed: dict[_Key, tuple[int, int]] = {}
        self.unsure: dict[_Key, bool] = {}
        self.carried = dict.fromkeys(carried)

    def lists(self, paths: list[str]) -> None:
        """The registrations that exist were listed."""
        if self.is_following:
            known = self.brokers or {}
            self.brokers = {one: known[one] for one in known if f"{_IDS}{one}" in paths}
            return
        self.listed, self.reading = paths, {}
        if not paths:
            self.all_read()

    def read(self, broker: int, data: bytes | None, czxid: int) -> None:
        """A registration was read; None: it does not exist."""
        found = self.reading
        if self.is_following:
            found = self.brokers = self.brokers or {}
            found.pop(broker, None)
        if data is not None and _is_registration(broker, data, czxid):
            found[broker] = czxid

    def all_read(self) -> None:
        """The registrations of all listed brokers were read."""
        found, self.reading, self.listed = self.reading, {}, None
        earlier = self.standing_by if self.brokers is None else self.brokers
        self.brokers = found
        if earlier is None:
            self.before = found
            return
        for broker, epoch in earlier.items():
            self.before.setdefault(broker, epoch)

    def all_events_handled(self) -> None:
        """The controller has handled all its events."""
        self.before = self.brokers or {}
        for key, has_failed in self.unsure.items():
            self.carried.pop(key, None)
            if not has_failed:
                self.failed.pop(key, None)
        self.unsure = {}


class ControllerStates(Protocol):
    """The state and configuration of the controllers themselves."""

    def is_standby(self, process: str) -> bool:
        """Whether the process waits for the controller role."""

    def broker_epoch_known_to(self, process: str, broker: int) -> int | None:
        """The epoch of a broker's registration in the state of a controller; None if unknown."""

    def live_brokers_of(self, process: str) -> Collection[int] | None:
        """The brokers that a controller knows to be live; None if it has no state."""

    def candidates_of(self, process: str, name: Name) -> LeaderCandidates | None:
        """The basis on which a controller chooses the leader of a partition; None if unknown."""

    def cancel_known_to(self, process: str) -> int:
        """The zxid of /admin/reassign_cancel in the state of a controller."""


class ControllerKnowledge:
    """The deliveries to all controllers. `own` is the state of the controllers themselves."""

    def __init__(self, known: KnownCluster, own: ControllerStates) -> None:
        self._known = known
        self._own = own
        self._views: dict[str, _View] = {}

    def inform_invariants(self) -> None:
        """Let the invariants ask what controllers know, by `KnownCluster`."""
        known = self._known
        known.live_brokers_of = self.live_brokers_of
        known.surely_live_of = self.surely_live_of
        known.latest_live_of = self.latest_live_of
        known.candidates_of = self.candidates_of
        known.shutting_down_of = self.shutting_down_of
        known.broker_epoch_known_to = self.broker_epoch_known_to
        known.cancel_known_to = self.cancel_known_to

    # Facts

    def ends(self, process: str) -> None:
        """A run of a controller ends."""
        self._views.pop(process, None)

    def term_begins(self, process: str) -> None:
        """A controller was elected. It may have to handle responses of its last term in its run."""
        last = self._views.get(process)
        carried = () if last is None else (*last.carried, *last.unsure)
        view = self._views[process] = _View(carried)
        if last is not None and self._own.is_standby(process):
            view.standing_by = last.brokers

    def folded(self, process: str, recorded: Recorded, issued: list[Issued]) -> None:
        """A controller has recorded an event, and has issued commands."""
        view = self._views.get(process)
        if view is None:
            follows = self._own.is_standby(process)
            view = self._views[process] = _View(is_following=follows)
        event = recorded.event
        if isinstance(event, ZnodesRead):
            self._znodes_read(view, event)
        elif isinstance(event, ChildrenRead):
            if view.open_commands.pop(event.command, None) is not None and event.error == OK:
                view.lists(_registrations(process, event.children))
        elif isinstance(event, BrokerResponded):
            request = view.open_commands.pop(event.command, None)
            if isinstance(request, LeaderAndIsrRequest) and not event.error:
                self._note_failed_replicas(view, event, request)
        for id, _, command, _ in issued:
            if _matters(view, command):
                view.open_commands[id] = command

    def handled(self, process: str) -> None:
        """A controller has handled all its events."""
        view = self._views.get(process)
        if view is not None:
            view.all_events_handled()

    @staticmethod
    def _znodes_read(view: _View, event: ZnodesRead) -> None:
        read = view.open_commands.get(event.command)
        if not isinstance(read, ReadZnodes | ReadStats):
            return
        if read.paths == (znodes.REASSIGN_CANCEL,):
            del view.open_commands[event.command]
            if event.errors[0] == NO_NODE:
                view.cancel = 0
            elif event.errors[0] == OK and isinstance(read, ReadZnodes):
                # A stat alone is no reason to follow the znode: the watch event comes later.
                view.cancel = event.czxids[0]
            return
        paths = read.paths[event.offset : event.offset + len(event.errors)]
        for path, error, data, czxid in zip(
            paths, event.errors, event.data, event.czxids, strict=True
        ):
            if not path.startswith(_IDS):
                continue
            if error not in (OK, NO_NODE):
                del view.open_commands[event.command]
                return
            view.read(int(path.removeprefix(_IDS)), data if error == OK else None, czxid)
        if event.offset + len(event.errors) == len(read.paths):
            del view.open_commands[event.command]
            if not view.is_following:
                view.all_read()

    def _note_failed_replicas(
        self, view: _View, event: BrokerResponded, request: LeaderAndIsrRequest
    ) -> None:
        """A broker reports which of its replicas are in failed log directories (KB 3.11.1)."""
        ids = {one.topic_id.hex(): one.topic for one in request.partitions if one.topic_id}
        errors = {(ids.get(topic, topic), one): code for topic, one, code in event.partition_errors}
        for partition in request.partitions:
            name = partition.topic, partition.partition
            key, topic = (event.broker, name), self._known.topics.get(name[0])
            if errors.get(name) == KAFKA_STORAGE_ERROR:
                czxid = topic.czxid if topic is not None else 0
                view.failed[key] = event.broker_epoch, czxid
                view.unsure[key] = True
            elif name not in errors and key in view.failed:
                view.unsure[key] = False

    # What a controller knows

    def _brokers(self, process: str) -> _Brokers | None:
        """The registrations that a controller has read last, and those before; None: its own state
        counts."""
        view = self._views.get(process)
        return None if view is None or view.brokers is None else (view.brokers, view.before)

    def broker_epoch_known_to(self, process: str, broker: int) -> int | None:
        """The broker epoch of a broker as a controller must know it; None: it knows no such
        broker."""
        found = self._brokers(process)
        if found is None:
            return self._own.broker_epoch_known_to(process, broker)
        return min((one[broker] for one in found if broker in one), default=None)

    def shutting_down_of(self, process: str) -> Collection[int]:
        """The brokers whose controlled shutdown a controller has granted, or handles."""
        requested = (
            one.broker
            for (asker, _), one in self._known.open_requests.items()
            if asker == process and isinstance(one, ControlledShutdownReceived)
        )
        granted, found = self._known.granted.get(process, {}), self._brokers(process)
        left = [
            broker
            for broker, epoch in granted.items()
            if found is None or any(one.get(broker) == epoch for one in found)
        ]
        return dict.fromkeys((*left, *requested))

    def live_brokers_of(self, process: str) -> Collection[int] | None:
        """The brokers that a controller may know to be live and not shutting down."""
        found = self._brokers(process)
        if found is None:
            return self._own.live_brokers_of(process)
        return self._live(process, found)

    def _live(self, process: str, found: _Brokers) -> list[int]:
        granted, (now, before) = self._known.granted.get(process, {}), found
        if now == before:
            return [broker for broker, epoch in now.items() if granted.get(broker) != epoch]
        return [
            broker
            for broker in {**now, **before}
            if any(broker in one and one[broker] != granted.get(broker) for one in found)
        ]

    def latest_live_of(self, process: str) -> Collection[int] | None:
        """The brokers that a controller knows to be live and not shutting down, unless it still
        handles a change of brokers."""
        found = self._brokers(process)
        if found is None:
            return self._own.live_brokers_of(process)
        granted = self._known.granted.get(process, {})
        return [broker for broker, epoch in found[0].items() if granted.get(broker) != epoch]

    def surely_live_of(self, process: str) -> Collection[int] | None:
        """The brokers that a controller must know to be live and not shutting down."""
        found = self._brokers(process)
        if found is None:
            return self._own.live_brokers_of(process)
        return self._surely_live(process, found)

    def _surely_live(self, process: str, found: _Brokers) -> list[int]:
        leaving, (now, before) = self.shutting_down_of(process), found
        return [
            broker
            for broker, epoch in now.items()
            if before.get(broker) == epoch and broker not in leaving
        ]

    def candidates_of(self, process: str, name: Name) -> LeaderCandidates | None:
        """Between which replicas a controller chooses the leader of a partition now."""
        found = self._brokers(process)
        if found is None:
            is_known = self._own.live_brokers_of(process) is not None
            return self._own.candidates_of(process, name) if is_known else None
        live, surely = self._live(process, found), self._surely_live(process, found)
        view, topic = self._views[process], self._known.topics.get(name[0])
        failed = view.failed
        # The controller may have forgotten what was reported of an earlier topic of the same name.
        out = [
            one
            for one in live
            if topic is not None
            and failed.get((one, name)) == (found[0].get(one), topic.czxid)
            and (one, name) not in view.unsure
            and (one, name) not in view.carried
        ]
        online = tuple(one for one in live if one not in out)
        certain = tuple(
            one for one in surely if (one, name) not in failed and (one, name) not in view.carried
        )
        return LeaderCandidates(self._orders(name), online, certain)

    def _orders(self, name: Name) -> tuple[tuple[int, ...], ...]:
        """The orders in which a controller may consider replicas: those of the assignment in the
        topic's znode, of requested targets, and of the reassignment's record. A requested target
        drops the replicas that are neither in it nor originals (LEADER_MOVED_FIRST)."""
        known, orders = self._known, []
        stored = known.assignment(name)
        replicas, origin = (stored.replicas, stored.origin) if stored is not None else ((), ())
        if stored is not None:
            orders += [replicas, stored.target, origin]
        requests = known.requests.get(name)
        for target in requests.targets if requests is not None else ():
            orders.append(tuple(dict.fromkeys((*target, *origin))))
            orders.append(tuple(one for one in replicas if one in target or one in origin))
        try:
            path = znodes.reassignment_path(*name)
            orders.append(znodes.read_reassignment(path, known.admin.get(path)).original_replicas)
        except ZnodeError:
            pass
        return tuple(orders)

    def cancel_known_to(self, process: str) -> int:
        """The czxid of the /admin/reassign_cancel that a controller knows; 0: it knows none."""
        view = self._views.get(process)
        if view is None or view.cancel is None:
            return self._own.cancel_known_to(process)
        return view.cancel


def _matters(view: _View, command: object) -> bool:
    if isinstance(command, ReadChildren):
        return command.path == znodes.BROKER_IDS
    if isinstance(command, ReadStats):
        return command.paths == (znodes.REASSIGN_CANCEL,)
    if isinstance(command, ReadZnodes):
        if command.paths == (znodes.REASSIGN_CANCEL,):
            return True
        if view.is_following:
            return any(one.startswith(_IDS) for one in command.paths)
        return view.listed is not None and sorted(command.paths) == view.listed
    return isinstance(command, LeaderAndIsrRequest)


def _registrations(process: str, children: list[str]) -> list[str]:
    """The registrations that a controller reads: a refold skips that of its registration."""
    own = str(id_in(process)) if is_refold(process) else None
    return sorted(f"{_IDS}{one}" for one in children if znodes.is_broker_id(one) and one != own)


def _is_registration(broker: int, data: bytes | None, czxid: int) -> bool:
    try:
        znodes.read_broker(broker, data, czxid)
    except ZnodeError:
        return False
    return True
