"""ReadZnodes, ReadStats and ReadChildren, as pages of multiRead or as one request per znode."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

from controller.core.commands import CommandId, ReadChildren, ReadStats, ReadZnodes
from controller.core.events import ChildrenRead, ZnodesRead
from controller.core.operations import NO_NODE, OK
from controller.zookeeper import bulk
from controller.zookeeper.bulk import Columns
from controller.zookeeper.wire import read_children
from controller.zookeeper.work import (
    EVENT_ITEMS_MAX,
    Exchange,
    OutcomeEvent,
    Work,
    ZooKeeperRequest,
)

EVENT_DATA_BYTES_MAX: Final = 512 * 1024
"""Limit of znode data in one event (docs/design.md#the-log); a larger znode is not split."""

PAGE_BYTES: Final = EVENT_DATA_BYTES_MAX // 2
"""The target size of a page's reply. A page with larger znodes than expected still fits in an
event."""

FIRST_PAGE_ITEMS: Final = 64
PAGE_ITEMS_MAX: Final = 1000
SINGLES_ITEMS_MAX: Final = 500
"""Znodes per event if each has a separate reply."""

ITEM_BYTES_MIN: Final = PAGE_BYTES // PAGE_ITEMS_MAX
"""The minimum assumed size of a znode: a page of missing znodes says nothing about the others."""

SINGLE_REPLY_BYTES: Final = 4096
"""The assumed size of a znode's reply before one was received."""


class _ZnodeReads(Work):
    """The common part of both ways to read many znodes: watches, columns and events."""

    def __init__(self, command_id: CommandId, paths: Sequence[str], watch: bool, with_: Exchange):
        self._id = command_id
        self._paths = paths
        self._watch = watch
        self._with = with_
        self._emitted = 0
        self._requests = self._produce()
        self._sent = False

    @abstractmethod
    def _produce(self) -> Iterator[ZooKeeperRequest | None]:
        """All requests in order; None if a reply must arrive first."""

    def take(self) -> ZooKeeperRequest | None:
        for request in self._requests:
            return request
        self._sent = True
        return None

    @property
    def sent(self) -> bool:
        return self._sent

    def path_of(self, place: int) -> str:
        return self._paths[place]

    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        while (rest := len(self._paths) - self._emitted) or not self._paths:
            columns = Columns()
            columns.add_errors(error, min(EVENT_ITEMS_MAX, rest))
            yield from self._emit(columns)
            if not self._paths:
                return

    def _persistent_watches(self, paths: Sequence[str]) -> Iterator[ZooKeeperRequest]:
        for path in paths:
            if self._with.watches.add_persistent(path):
                body = bulk.add_watch_request(self._with.encoded(path))
                yield ZooKeeperRequest(body, len(body), path)

    def _emit(self, columns: Columns) -> Iterator[ZnodesRead]:
        """The events of the next znodes. A znode whose watch failed has the error of the watch."""
        count = len(columns)
        paths = self._paths[self._emitted : self._emitted + count]
        if self._watch:
            self._note_watches(paths, columns.errors)
        start = 0
        for end in _event_ends(columns.data):
            part = slice(start, end)
            yield ZnodesRead(
                self._id,
                self._emitted,
                columns.errors[part],
                columns.data[part],
                columns.versions[part],
                columns.czxids[part],
                columns.mzxids[part],
                columns.owners[part],
            )
            self._emitted += end - start
            start = end

    def _note_watches(self, paths: Sequence[str], errors: list[int]) -> None:
        refusals = self._with.refusals
        for place, (path, error) in enumerate(zip(paths, errors, strict=True)):
            if path in refusals and error in (OK, NO_NODE):
                errors[place] = refusals[path]
            elif error == OK or (error == NO_NODE and self._watches_creation):
                self._with.watches.data_read(path, error == OK)

    @property
    def _watches_creation(self) -> bool:
        """Whether a watch on a missing znode remains set."""
        return self._with.bulk


def _event_ends(data: Sequence[bytes | None]) -> Iterator[int]:
    """Where to end events so that none has too much data; at least one end."""
    if sum(map(len, filter(None, data))) > EVENT_DATA_BYTES_MAX:
        size = 0
        for place, one in enumerate(data):
            length = len(one) if one else 0
            if size and size + length > EVENT_DATA_BYTES_MAX:
                yield place
                size = 0
            size += length
    yield len(data)


class PagedReads(_ZnodeReads):
    """ReadZnodes on a server with multiRead.

    The first page is small; its reply determines the size of the others. The size of a reply is
    bounded by requesting fewer znodes.
    """

    _item_bytes = 0

    def _produce(self) -> Iterator[ZooKeeperRequest | None]:
        start = 0
        while start < len(self._paths):
            if start and not self._item_bytes:
                yield None
                continue
            count = FIRST_PAGE_ITEMS
            if self._item_bytes:
                count = max(1, PAGE_BYTES // self._item_bytes)
            paths = self._paths[start : start + count]
            if self._watch:
                yield from self._persistent_watches(paths)
            body = bulk.multi_read_request(map(self._with.encoded, paths))
            reply_bytes = len(paths) * (self._item_bytes or SINGLE_REPLY_BYTES)
            yield ZooKeeperRequest(body, max(len(body), reply_bytes), len(paths))
            start += count

    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        if isinstance(token, str):
            self._with.watches.persistent_answered(token, error)
            return
        assert isinstance(token, int)
        columns = Columns()
        if error == OK:
            bulk.read_multi_read(frame, token, columns)
        else:
            columns.add_errors(error, token)
        self._item_bytes = max(self._item_bytes, len(frame) // token, ITEM_BYTES_MIN)
        yield from self._emit(columns)


class SingleReads(_ZnodeReads):
    """ReadStats, and ReadZnodes on an old server: one request per znode, many in flight."""

    def __init__(
        self, command_id: CommandId, command: ReadZnodes | ReadStats, with_: Exchange
    ) -> None:
        super().__init__(command_id, command.paths, command.watch, with_)
        self._opcode = bulk.GET_DATA if isinstance(command, ReadZnodes) else bulk.EXISTS
        self._columns = Columns()
        self._data_bytes = 0

    def _produce(self) -> Iterator[ZooKeeperRequest | None]:
        one_shot = self._watch and not self._with.bulk
        for path in self._paths:
            if self._watch and not one_shot:
                yield from self._persistent_watches((path,))
            body = bulk.read_request(self._opcode, self._with.encoded(path), one_shot)
            yield ZooKeeperRequest(body, SINGLE_REPLY_BYTES)

    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        if isinstance(token, str):
            self._with.watches.persistent_answered(token, error)
            return
        columns = self._columns
        if error != OK:
            columns.add_errors(error)
        elif self._opcode == bulk.GET_DATA:
            bulk.read_znode(frame, columns)
        else:
            bulk.read_stat(frame, columns)
        self._data_bytes += len(frame)
        if (
            len(columns) >= SINGLES_ITEMS_MAX
            or self._data_bytes >= PAGE_BYTES
            or self._emitted + len(columns) == len(self._paths)
        ):
            yield from self._flush()

    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        if self._columns:
            yield from self._flush()
        yield from super().fail(error)

    def _flush(self) -> Iterator[ZnodesRead]:
        columns, self._columns, self._data_bytes = self._columns, Columns(), 0
        yield from self._emit(columns)

    @property
    def _watches_creation(self) -> bool:
        return self._opcode == bulk.EXISTS or super()._watches_creation


class ChildrenReads(Work):
    """ReadChildren: at most one watch and one request."""

    def __init__(self, command_id: CommandId, command: ReadChildren, with_: Exchange) -> None:
        self._id = command_id
        self._path = command.path
        self._watch = command.watch
        self._with = with_
        self._requests = self._produce()
        self._sent = False

    def _produce(self) -> Iterator[ZooKeeperRequest]:
        path = self._with.encoded(self._path)
        if self._watch and self._with.bulk and self._with.watches.add_persistent(self._path):
            body = bulk.add_watch_request(path)
            yield ZooKeeperRequest(body, len(body), self._path)
        self._sent = True
        one_shot = self._watch and not self._with.bulk
        yield ZooKeeperRequest(bulk.read_request(bulk.GET_CHILDREN, path, one_shot), PAGE_BYTES)

    def take(self) -> ZooKeeperRequest | None:
        return next(self._requests, None)

    @property
    def sent(self) -> bool:
        return self._sent

    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        if token is not None:
            self._with.watches.persistent_answered(self._path, error)
            return
        if self._watch:
            error = self._with.refusals.get(self._path, error)
        if self._watch and (error == OK or (error == NO_NODE and self._with.bulk)):
            self._with.watches.children_read(self._path, error == OK)
        names = sorted(read_children(frame)) if error == OK else []
        yield ChildrenRead(self._id, error, names)

    def path_of(self, place: int) -> str:
        return self._path

    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        yield ChildrenRead(self._id, error, [])
