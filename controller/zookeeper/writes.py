"""WriteZnodes, WriteAtomically and SyncZnodes.

WriteZnodes carries out each operation separately and in order, guarded by /controller_epoch (KB
1.3.1). For speed, many operations share one multi and several multis are in flight. These rules
preserve the meaning:

- A multi is atomic. If an operation fails, it keeps its error. The other operations of the multi
  are sent again in multis of half the size, so that many failures cost little.
- An operation that depends on one in flight (the same path, its parent or its child) waits until
  nothing is in flight. Otherwise a create could overtake its parent, which may have to be sent
  again.
- A failed operation that depends on an earlier one in its multi is retried after that one.
- If the check of /controller_epoch fails, all operations end with FENCED, including unsent ones:
  that version never returns.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from controller.core.commands import (
    CommandId,
    SyncZnodes,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.events import ZnodesWritten
from controller.core.operations import (
    FENCED,
    OK,
    RUNTIME_INCONSISTENCY,
    Create,
    CreateSequential,
    SetData,
    WriteOperation,
)
from controller.core.values import ANY_VERSION
from controller.core.znodes import CONTROLLER_EPOCH
from controller.zookeeper import bulk
from controller.zookeeper.wire import sync_request
from controller.zookeeper.work import (
    EVENT_ITEMS_MAX,
    Exchange,
    OutcomeEvent,
    Work,
    ZooKeeperRequest,
)

MULTI_ITEMS_MAX: Final = 1000
MULTI_BYTES_MAX: Final = 640 * 1024
"""The size limit of a multi, below the default jute.maxbuffer of 1 MiB."""


class _Segment(NamedTuple):
    """Operations to send, by index, and how many may share a multi."""

    places: Sequence[int]
    limit: int


class IndependentWrites(Work):
    """Carries out the command WriteZnodes."""

    def __init__(self, command_id: CommandId, command: WriteZnodes, with_: Exchange) -> None:
        self._id = command_id
        self._operations = command.operations
        self._with = with_
        self._guard: tuple[bytes, int] | None = None
        if command.epoch_version is not None:
            self._guard = (with_.encoded(CONTROLLER_EPOCH), command.epoch_version)
        count = len(self._operations)
        whole = _Segment(range(count), MULTI_ITEMS_MAX)
        self._segments = deque([whole])  # bounded by the command's operations
        self._errors: list[int | None] = [None] * count
        self._versions = [ANY_VERSION] * count
        self._emitted = 0
        self._multis_in_flight = 0
        self._may_split = 0
        """Multis in flight of which a part may have to be sent again."""
        self._paths_in_flight = _Paths()

    def take(self) -> ZooKeeperRequest | None:
        if not self._multis_in_flight:
            self._paths_in_flight = _Paths()
        places, size = self._cut()
        if not places:
            return None
        self._multis_in_flight += 1
        self._may_split += len(places) > 1
        encoded, operations = self._with.encoded, self._operations
        named = [(encoded((one := operations[place]).path), one) for place in places]
        return ZooKeeperRequest(
            bulk.multi_request(named, self._with.acls.acl_of, self._guard), size, places
        )

    def _cut(self) -> tuple[Sequence[int], int]:
        """The indexes of the next multi and its approximate size; empty if it must wait."""
        if not self._segments:
            return (), 0
        places, limit = self._segments[0]
        in_flight = self._paths_in_flight
        waits = bool(self._multis_in_flight)
        taken: list[str] = []
        size = 0
        for place in islice(places, limit):
            operation = self._operations[place]
            size += self._size(operation)
            if taken and size > MULTI_BYTES_MAX:
                break
            if waits and in_flight.touch(operation.path):
                break
            taken.append(operation.path)
        in_flight.add(taken)
        count = len(taken)
        if count == len(places):
            self._segments.popleft()
        else:
            self._segments[0] = _Segment(places[count:], limit)
        return places[:count], size

    def _size(self, operation: WriteOperation) -> int:
        size = bulk.ITEM_OVERHEAD_BYTES + len(self._with.chroot) + len(operation.path)
        match operation:
            case SetData(data=data):
                size += len(data)
            case Create(path, data) | CreateSequential(path, data):
                size += len(data) + len(self._with.acls.acl_of(path))
        return size

    @property
    def sent(self) -> bool:
        return not self._segments and not self._may_split

    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        assert isinstance(token, Sequence)
        places: Sequence[int] = token
        self._multis_in_flight -= 1
        self._may_split -= len(places) > 1
        if error != OK:
            self._set_errors(places, error)
        else:
            guards = 0 if self._guard is None else 1
            errors, versions = bulk.read_multi(frame, len(places) + guards)
            failed = _failed_index(errors)
            if failed is None:
                for place, version in zip(places, versions[guards:], strict=True):
                    self._errors[place] = OK
                    self._versions[place] = version
            elif failed < guards:
                self._fence(places)
            else:
                self._split_failed_multi(places, failed - guards, errors[failed])
        yield from self._emit()

    def _set_errors(self, places: Sequence[int], error: int) -> None:
        for place in places:
            self._errors[place] = error

    def _fence(self, places: Sequence[int]) -> None:
        self._set_errors(places, FENCED)
        for segment in self._segments:
            self._set_errors(segment.places, FENCED)
        self._segments.clear()

    def _split_failed_multi(self, places: Sequence[int], failed: int, error: int) -> None:
        """Send a multi again without the failed operation, or first the operations before it."""
        before, after = list(places[:failed]), list(places[failed + 1 :])
        limit = max(1, len(places) // 2)
        place = places[failed]
        earlier = _Paths()
        earlier.add([self._operations[one].path for one in before])
        if earlier.touch(self._operations[place].path):
            segments = [before, [place, *after]]
        else:
            self._errors[place] = error
            segments = [before + after]
        for part in reversed(segments):
            if part:
                self._segments.appendleft(_Segment(part, limit))

    def path_of(self, place: int) -> str:
        return self._operations[place].path

    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        self._errors = [error if one is None else one for one in self._errors]
        yield from self._emit()
        if not self._errors:
            yield ZnodesWritten(self._id, 0, [], [])

    def _emit(self) -> Iterator[ZnodesWritten]:
        """The events of finished operations, in order. An unfinished one delays those that
        follow."""
        errors: list[int] = []
        for one in islice(self._errors, self._emitted, None):
            if one is None:
                break
            errors.append(one)
        for start in range(0, len(errors), EVENT_ITEMS_MAX):
            part = errors[start : start + EVENT_ITEMS_MAX]
            end = self._emitted + len(part)
            yield ZnodesWritten(self._id, self._emitted, part, self._versions[self._emitted : end])
            self._emitted = end


class _Paths:
    """Paths of operations, to find dependencies of other operations."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._parents: set[str] = set()

    def add(self, paths: Sequence[str]) -> None:
        self._paths.update(paths)
        self._parents.update([path[: path.rfind("/")] for path in paths])

    def touch(self, path: str) -> bool:
        """Whether one of the paths is this path, its parent or its child."""
        paths = self._paths
        return path in paths or path[: path.rfind("/")] in paths or path in self._parents


def _failed_index(errors: Sequence[int]) -> int | None:
    """The index of the operation at which a multi failed, None if it succeeded.

    The results before it are 0 and those after it -2, although nothing was done.
    """
    return next((place for place, error in enumerate(errors) if error != OK), None)


class _OneRequest(Work):
    """A command with one request and one outcome event."""

    def __init__(self, command_id: CommandId, with_: Exchange) -> None:
        self._id = command_id
        self._with = with_

    def take(self) -> ZooKeeperRequest:
        body = self._body()
        return ZooKeeperRequest(body, len(body))

    @abstractmethod
    def _body(self) -> bytes:
        """The request."""

    @property
    def sent(self) -> bool:
        """True: the pipeline asks when it has taken the request."""
        return True


class AtomicWrite(_OneRequest):
    """WriteAtomically. The failed operation has its error, all others -2."""

    def __init__(self, command_id: CommandId, command: WriteAtomically, with_: Exchange) -> None:
        super().__init__(command_id, with_)
        self._operations = command.operations

    def _body(self) -> bytes:
        named = [(self._with.encoded(one.path), one) for one in self._operations]
        return bulk.multi_request(named, self._with.acls.acl_of, None)

    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        if error != OK:
            yield from self.fail(error)
            return
        count = len(self._operations)
        errors, versions = bulk.read_multi(frame, count)
        failed = _failed_index(errors)
        if failed is not None:
            versions = [ANY_VERSION] * count
            errors = [
                one if place == failed else RUNTIME_INCONSISTENCY
                for place, one in enumerate(errors)
            ]
        yield ZnodesWritten(self._id, 0, errors, versions)

    def path_of(self, place: int) -> str:
        return self._operations[place].path

    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        count = len(self._operations)
        yield ZnodesWritten(self._id, 0, [error] * count, [ANY_VERSION] * count)


class _OneError(_OneRequest):
    """A command for one znode whose outcome is one error code."""

    def __init__(self, command_id: CommandId, path: str, with_: Exchange) -> None:
        super().__init__(command_id, with_)
        self._path = path

    def path_of(self, place: int) -> str:
        return self._path

    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        yield from self.fail(error)

    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        yield ZnodesWritten(self._id, 0, [error], [ANY_VERSION])


class Sync(_OneError):
    """Carries out the command SyncZnodes."""

    def __init__(self, command_id: CommandId, command: SyncZnodes, with_: Exchange) -> None:
        super().__init__(command_id, command.path, with_)

    def _body(self) -> bytes:
        return sync_request(self._with.server_path(self._path))


class SubtreeWatch(_OneError):
    """WatchSubtree on a server with addWatch."""

    def __init__(self, command_id: CommandId, command: WatchSubtree, with_: Exchange) -> None:
        super().__init__(command_id, command.path, with_)
        self._command = command

    def _body(self) -> bytes:
        path, ends = self._command.path, self._command.ends
        self._with.watches.set_subtree(path, ends=ends)
        return bulk.watch_subtree_request(self._with.encoded(path), ends=ends)

    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        if error != OK:
            self._with.watches.set_subtree(self._command.path, ends=True)
        yield from self.fail(error)
