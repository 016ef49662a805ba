"""Maps commands to the classes that carry them out."""

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
from controller.zookeeper.reads import ChildrenReads, PagedReads, SingleReads
from controller.zookeeper.work import Exchange, Work
from controller.zookeeper.writes import AtomicWrite, IndependentWrites, SubtreeWatch, Sync


def work_of(command_id: CommandId, command: ZooKeeperCommand, exchange: Exchange) -> Work:
    """The work for a command, on the current server of `exchange`."""
    match command:
        case ReadZnodes() if exchange.bulk:
            return PagedReads(command_id, command.paths, command.watch, exchange)
        case ReadZnodes() | ReadStats():
            return SingleReads(command_id, command, exchange)
        case ReadChildren():
            return ChildrenReads(command_id, command, exchange)
        case WriteZnodes():
            return IndependentWrites(command_id, command, exchange)
        case WriteAtomically():
            return AtomicWrite(command_id, command, exchange)
        case SyncZnodes():
            return Sync(command_id, command, exchange)
        case WatchSubtree():
            return SubtreeWatch(command_id, command, exchange)


def is_empty(command: ZooKeeperCommand) -> bool:
    """Whether a command is empty: then its outcome is empty, and no server is needed."""
    match command:
        case ReadZnodes(paths=()) | ReadStats(paths=()):
            return True
        case WriteZnodes(operations=()) | WriteAtomically(operations=()):
            return True
        case _:
            return False
