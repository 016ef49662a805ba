"""The connection on which a procedure uses ZooKeeper, and its results after lost replies."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec import structs

from controller.core.commands import (
    CommandId,
    ReadZnodes,
    Reason,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.controller import Controller
from controller.core.errors import ControllerMovedError, TermEnded
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    NO_NODE,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    Create,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.values import ANY_VERSION
from controller.core.znodes import CONTROLLER_EPOCH
from controller.core.zookeeper_io import (
    fetch_children,
    fetch_znodes,
    read_children_of_each,
    read_latest,
    watch_subtree,
    write,
    write_atomically,
    write_groups,
    write_together,
)
from replay.world.outcomes import ZooKeeperOutcome, carry_out, without_reply
from tests.controller.core.driving import ControllerHarness

ANY_ID = CommandId(0, 0)
REASON = Reason("test")
OURS, THEIRS = b"ours", b"theirs"

Access = Callable[[Controller], Coroutine[Any, Any, Any]]

ACCESSES: dict[str, Access] = {
    "read znodes": lambda one: fetch_znodes(one, ["/a"], "test"),
    "read the latest znodes": lambda one: read_latest(one, ["/a"], "test"),
    "list children": lambda one: fetch_children(one, "/a", "test"),
    "list children of several": lambda one: read_children_of_each(one, ["/a", "/b"], "test"),
    "watch a subtree": lambda one: watch_subtree(one, "/a", "test"),
    "write": lambda one: write(one, [SetData("/a", OURS, 0)], REASON),
    "write a multi": lambda one: write_atomically(one, [SetData("/a", OURS, 0)], REASON),
    "write a guarded multi": lambda one: write_together(one, [SetData("/a", OURS, 0)], REASON),
    "write several multis": lambda one: write_groups(one, two_groups()),
}


def two_groups() -> list[tuple[list[WriteOperation], Reason]]:
    return [([SetData("/a", OURS, 0)], REASON), ([SetData("/b", OURS, 0)], REASON)]


class ConnectedController(ControllerHarness):
    """A controller with znodes /a and /b. `commands` has each command with its connection.

    The replies to the next `lost` commands are lost: they end with `error`. `is_done`: ZooKeeper
    carries these commands out. `losing` is called before the last loss is reported.
    """

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[tuple[int, ZooKeeperCommand]] = []
        self.lost = 0
        self.is_done = False
        self.error = CONNECTION_LOSS
        self.losing: Callable[[], None] = lambda: None
        self.reply = self._note
        for path in ("/a", "/a/child", "/b"):
            self.put(path, b"before")

    def _note(self, command: ZooKeeperCommand) -> list[ZooKeeperOutcome] | None:
        assert self.controller.is_connected, "no command is issued without a connection"
        self.commands.append((self.controller.connections, command))
        if not self.lost:
            return None
        self.lost -= 1
        server = self.zookeeper if self.is_done else self.zookeeper.copy()
        outcomes = carry_out(server, self.session, ANY_ID, command, 0)
        if not self.lost:
            self.losing()
        return [without_reply(one, self.error) for one in outcomes]

    def connections(self) -> list[int]:
        """The connection of each command."""
        return [connection for connection, _ in self.commands]

    def versions(self) -> tuple[int, int]:
        """The versions of /a and /b."""
        return self.version("/a"), self.version("/b")

    def run_access(self, access: Access) -> Any:
        return self.run(access(self.controller))


def children_of_both(driven: ConnectedController) -> Any:
    return driven.run_access(ACCESSES["list children of several"])


def write_both(driven: ConnectedController) -> Any:
    return driven.run_access(ACCESSES["write several multis"])


# The connection -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACCESSES)
def test_command_without_a_connection_waits_for_one(name: str) -> None:
    driven = ConnectedController()
    driven.disconnect()
    driven.run_access(ACCESSES[name])
    assert set(driven.connections()) == {1}


@pytest.mark.parametrize("name", ACCESSES)
def test_procedure_with_a_lost_reply_continues_on_the_next_connection(name: str) -> None:
    driven = ConnectedController()
    driven.lost = 1
    driven.run_access(ACCESSES[name])
    issued_together = 2 if "several" in name else 1
    assert driven.connections().count(0) == issued_together
    assert driven.controller.connections == 1


@pytest.mark.parametrize("lost", [1, 2])
def test_children_of_several_znodes_are_listed_again_after_a_loss(lost: int) -> None:
    driven = ConnectedController()
    driven.lost = lost
    assert children_of_both(driven) == {"/a": ["child"], "/b": []}
    assert driven.connections() == [0, 0, 1, 1]


def test_children_lost_before_a_new_connection_are_listed_on_it_at_once() -> None:
    """The last loss is reported after the new connection. The procedure must not wait for a further
    connection, which may never come."""
    driven = ConnectedController()
    driven.lost, driven.losing = 2, driven.reconnect
    assert children_of_both(driven) == {"/a": ["child"], "/b": []}
    assert driven.connections() == [0, 0, 1, 1]


@pytest.mark.parametrize("is_connected_again", [False, True])
def test_end_of_the_session_ends_a_procedure_that_lists_children(is_connected_again: bool) -> None:
    driven = ConnectedController()
    driven.lost, driven.error = 2, SESSION_EXPIRED
    if is_connected_again:
        driven.losing = driven.reconnect
    with pytest.raises(TermEnded):
        children_of_both(driven)
    assert len(driven.commands) == 2


def test_subtree_watch_with_a_lost_reply_is_requested_again() -> None:
    driven = ConnectedController()
    driven.lost = 1
    assert driven.run_access(ACCESSES["watch a subtree"]) == OK
    assert driven.connections() == [0, 1]


def test_latest_znodes_are_read_without_a_watch() -> None:
    driven = ConnectedController()
    driven.run(read_latest(driven.controller, ["/a"], "test"))
    driven.put("/a", THEIRS)
    assert driven.zookeeper.take_events(driven.session) == []


# The outcome of a lost write ------------------------------------------------------------------


def lose_write(driven: ConnectedController, operation: WriteOperation) -> tuple[int, int, int]:
    """Error and version of a write whose reply is lost, and how often it was issued."""
    driven.lost = 1
    done = driven.run(write(driven.controller, [operation], REASON))
    issued = [one for _, one in driven.commands if isinstance(one, WriteZnodes)]
    return done.errors[0], done.versions[0], len(issued)


def test_lost_change_of_a_deleted_znode_found_no_node() -> None:
    driven = ConnectedController()
    driven.losing = lambda: driven.remove("/b")
    assert lose_write(driven, SetData("/b", OURS, 0)) == (NO_NODE, -1, 1)


def test_lost_change_to_the_same_content_is_done_again() -> None:
    driven = ConnectedController()
    assert lose_write(driven, SetData("/a", b"before", 0)) == (OK, 1, 2)


def test_lost_change_of_a_znode_with_a_later_version_is_not_repeated() -> None:
    driven = ConnectedController()

    def write_twice() -> None:
        driven.put("/a", THEIRS)
        driven.put("/a", OURS)

    driven.losing = write_twice
    assert lose_write(driven, SetData("/a", OURS, 0))[0::2] == (BAD_VERSION, 1)


def test_lost_creation_of_a_znode_without_content_is_done() -> None:
    """ZooKeeper's reply to the read has no content."""
    driven = ConnectedController()
    driven.is_done = True
    note = driven.reply

    def without_content(command: ZooKeeperCommand) -> list[ZooKeeperOutcome] | None:
        replied = note(command)
        if not isinstance(command, ReadZnodes):
            return replied
        read = carry_out(driven.zookeeper, driven.session, ANY_ID, command, 0)
        return [structs.replace(one, data=[None]) for one in read]

    driven.reply = without_content
    assert lose_write(driven, Create("/new")) == (OK, 0, 1)


# Multis ---------------------------------------------------------------------------------------


def multis(driven: ConnectedController) -> int:
    """How many multis were issued."""
    return sum(isinstance(one, WriteAtomically) for _, one in driven.commands)


@pytest.mark.parametrize("is_done", [False, True])
def test_guarded_multi_with_a_lost_reply_is_done_once(is_done: bool) -> None:
    driven = ConnectedController()
    driven.lost, driven.is_done = 1, is_done
    operations: list[WriteOperation] = [SetData("/a", OURS, 0), SetData("/b", OURS, 0)]
    assert driven.run(write_together(driven.controller, operations, REASON)) == [OK, OK]
    assert driven.versions() == (1, 1)
    assert multis(driven) == 2 - is_done


def test_multi_with_a_lost_reply_is_reported_as_lost() -> None:
    driven = ConnectedController()
    driven.lost = 1
    errors = driven.run_access(ACCESSES["write a multi"])
    assert errors == [CONNECTION_LOSS]
    assert (driven.controller.connections, multis(driven)) == (1, 1)


@pytest.mark.parametrize("name", ["write", "write a guarded multi", "write several multis"])
def test_write_of_a_deposed_controller_is_fenced(name: str) -> None:
    driven = ConnectedController()
    driven.put(CONTROLLER_EPOCH, b"51")
    with pytest.raises(ControllerMovedError, match="a guarded write was refused"):
        driven.run_access(ACCESSES[name])
    assert driven.versions() == (0, 0)


def test_several_multis_with_a_lost_reply_are_returned_after_the_new_connection() -> None:
    driven = ConnectedController()
    driven.lost = 1
    assert write_both(driven) == [[CONNECTION_LOSS], [OK]]
    assert driven.controller.connections == 1
    assert driven.versions() == (0, 1)


def test_refused_multi_does_not_affect_the_next_one() -> None:
    driven = ConnectedController()
    driven.put("/a", THEIRS)
    assert write_both(driven) == [[BAD_VERSION], [OK]]


def test_multis_with_replies_of_two_operations_have_all_their_results() -> None:
    driven = ConnectedController()
    driven.remove("/b")
    driven.reply = lambda command: carry_out(
        driven.zookeeper, driven.session, ANY_ID, command, 0, page=2
    )
    operations: list[WriteOperation] = [SetData("/a", OURS, 0), Create("/c"), Create("/d")]
    last: list[WriteOperation] = [Create("/e"), Create("/f"), Delete("/b", ANY_VERSION)]
    groups = [(operations, REASON), (last, REASON)]
    refused = [RUNTIME_INCONSISTENCY, RUNTIME_INCONSISTENCY, NO_NODE]
    assert driven.run(write_groups(driven.controller, groups)) == [[OK, OK, OK], refused]


def test_no_multis_need_no_command() -> None:
    driven = ConnectedController()
    assert driven.run(write_groups(driven.controller, [])) == []
    assert driven.commands == []
