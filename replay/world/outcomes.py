"""Carries out the fold's ZooKeeper commands on a simulated server."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from controller.core.commands import (
    CommandId,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    SyncZnodes,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.events import ChildrenRead, ZnodesRead, ZnodesWritten
from controller.core.operations import (
    FENCED,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    Check,
    WriteOperation,
)
from controller.core.znodes import CONTROLLER_EPOCH
from replay.world.requests import (
    AddWatch,
    Exists,
    GetChildren,
    GetData,
    Multi,
    OperationResult,
    RemoveWatches,
    Sync,
)
from replay.world.zookeeper import ZooKeeper

ZooKeeperOutcome = ZnodesRead | ChildrenRead | ZnodesWritten


PAGE: Final = 1000
"""The default number of items in one outcome event, as many as in one reply packet."""


def carry_out(
    world: ZooKeeper,
    session: int,
    command_id: CommandId,
    command: ZooKeeperCommand,
    now_ms: int,
    page: int = PAGE,
) -> list[ZooKeeperOutcome]:
    """Carry out a command of a session's controller and return its outcomes with `page` items each.

    A command without items has one empty outcome. `take_events` returns the watch events.
    """
    match command:
        case ReadZnodes(paths=paths, watch=watch):
            _arm(world, session, paths if watch else (), now_ms)
            read = [world.apply(session, GetData(path), now_ms).result for path in paths]
            return [
                _outcome_of_reads(command_id, offset, part) for offset, part in _pages(read, page)
            ]
        case ReadStats(paths=paths, watch=watch):
            _arm(world, session, paths if watch else (), now_ms)
            read = [world.apply(session, Exists(path), now_ms).result for path in paths]
            return [
                _outcome_of_reads(command_id, offset, part) for offset, part in _pages(read, page)
            ]
        case ReadChildren(path=path, watch=watch):
            _arm(world, session, (path,) if watch else (), now_ms)
            listed = world.apply(session, GetChildren(path), now_ms).result
            return [ChildrenRead(command_id, listed.error, list(listed.children or ()))]
        case WriteZnodes(operations=operations, epoch_version=epoch_version):
            written = [_write(world, session, one, epoch_version, now_ms) for one in operations]
            return [
                _outcome_of_writes(command_id, offset, part)
                for offset, part in _pages(written, page)
            ]
        case WriteAtomically(operations=operations):
            results = _write_atomically(world, session, operations, now_ms)
            return [
                _outcome_of_writes(command_id, offset, part)
                for offset, part in _pages(results, page)
            ]
        case SyncZnodes(path=path):
            return [
                _outcome_of_writes(command_id, 0, [world.apply(session, Sync(path), now_ms).result])
            ]
        case WatchSubtree(path=path, ends=ends):
            request = RemoveWatches(path) if ends else AddWatch(path, recursive=True)
            return [
                _outcome_of_writes(command_id, 0, [world.apply(session, request, now_ms).result])
            ]


def without_reply(outcome: ZooKeeperOutcome, error: int) -> ZooKeeperOutcome:
    """The outcome of the same command if its reply is lost: each item has the error."""
    match outcome:
        case ChildrenRead():
            return replace(outcome, error=error, children=[])
        case ZnodesWritten(errors=errors):
            count = len(errors)
            return replace(outcome, errors=[error] * count, versions=[-1] * count)
        case ZnodesRead(errors=errors):
            count = len(errors)
            none = [-1] * count
            return ZnodesRead(
                outcome.command, outcome.offset, [error] * count, [None] * count, *[none] * 4
            )


def _arm(world: ZooKeeper, session: int, paths: tuple[str, ...], now_ms: int) -> None:
    """Add a persistent watch to each path, before the read, so that no change is missed."""
    for path in paths:
        world.apply(session, AddWatch(path), now_ms)


def _write(
    world: ZooKeeper,
    session: int,
    operation: WriteOperation,
    epoch_version: int | None,
    now_ms: int,
) -> OperationResult:
    """A single write, guarded by the version of /controller_epoch if it is set (KB 1.3.1)."""
    if epoch_version is None:
        return world.apply(session, Multi((operation,)), now_ms).result
    guarded = Multi((Check(CONTROLLER_EPOCH, epoch_version), operation))
    check, result = world.apply(session, guarded, now_ms).results
    if check.error in (OK, SESSION_EXPIRED):
        return result
    return OperationResult(FENCED)


def _write_atomically(
    world: ZooKeeper, session: int, operations: tuple[WriteOperation, ...], now_ms: int
) -> list[OperationResult]:
    """Write all or nothing: if one write fails, the others do not happen either."""
    results = list(world.apply(session, Multi(operations), now_ms).results)
    if all(one.error == OK for one in results):
        return results
    return [one if one.error else OperationResult(RUNTIME_INCONSISTENCY) for one in results]


def _pages(
    results: list[OperationResult], page: int
) -> Iterator[tuple[int, list[OperationResult]]]:
    for offset in range(0, max(len(results), 1), page):
        yield offset, results[offset : offset + page]


def _outcome_of_reads(
    command_id: CommandId, offset: int, results: list[OperationResult]
) -> ZnodesRead:
    stats = [one.stat for one in results]
    return ZnodesRead(
        command=command_id,
        offset=offset,
        errors=[one.error for one in results],
        data=[one.data for one in results],
        versions=[one.version if one else -1 for one in stats],
        czxids=[one.czxid if one else -1 for one in stats],
        mzxids=[one.mzxid if one else -1 for one in stats],
        owners=[one.ephemeral_owner if one else -1 for one in stats],
    )


def _outcome_of_writes(
    command_id: CommandId, offset: int, results: list[OperationResult]
) -> ZnodesWritten:
    return ZnodesWritten(
        command=command_id,
        offset=offset,
        errors=[one.error for one in results],
        versions=[one.stat.version if one.stat else -1 for one in results],
    )
