"""Batched writes: one multi if all succeed, separate requests after a failure, always in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controller.core.commands import CommandId, WriteAtomically, WriteZnodes
from controller.core.events import Event, ZnodesWritten
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    FENCED,
    NO_NODE,
    NODE_EXISTS,
    OK,
    RUNTIME_INCONSISTENCY,
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.zookeeper import writes
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SessionHarness
from tests.controller.zookeeper.peer import Sent
from tests.controller.zookeeper.tree import Tree

EPOCH = "/controller_epoch"
THROTTLED = -127
"""The error (THROTTLEDOP) of a request that waited too long in the queue of a server."""


class Server:
    """Executes the multis of a driven session on a tree, one at a time."""

    def __init__(self, versions: dict[str, int], **settings: object) -> None:
        self.tree = Tree(versions)
        self.driven = SessionHarness(**settings)
        self.driven.ready()
        self.driven.events()
        self.multis: list[list[WriteOperation]] = []
        self.sizes: list[int] = []
        """The bytes of each multi."""

    def carry_out(self, command: WriteZnodes | WriteAtomically) -> list[Event]:
        """Send a command and answer until no request follows. Returns its outcome events."""
        waiting = self.driven.submit(command)
        while waiting:
            waiting += self.driven.receive(self._answer(waiting.pop(0)))
        return self.driven.events()

    def _answer(self, sent: Sent) -> bytes:
        assert sent.opcode == peer.MULTI
        operations = peer.multi_operations(sent.body)
        self.multis.append(operations)
        self.sizes.append(len(sent.body))
        return peer.reply(sent.xid, peer.multi_body(operations, *self.tree.multi(operations)))


def results(events: list[Event]) -> tuple[list[int], list[int]]:
    """All errors and versions of the events, which must be consecutive."""
    errors: list[int] = []
    versions: list[int] = []
    for event in events:
        assert isinstance(event, ZnodesWritten)
        assert event.offset == len(errors)
        errors += event.errors
        versions += event.versions
    return errors, versions


def test_writes_that_all_succeed_are_one_multi_with_one_check() -> None:
    server = Server({EPOCH: 4, "/a": 7, "/b": 0})
    command = WriteZnodes((SetData("/a", b"x", 7), Create("/c"), Delete("/b", 0)), 4)
    events = server.carry_out(command)
    assert server.multis == [[Check(EPOCH, 4), *command.operations]]
    assert events == [ZnodesWritten(CommandId(1, 1), 0, [OK, OK, OK], [8, 0, -1])]


def test_writes_without_an_epoch_have_no_check() -> None:
    server = Server({"/a": 0})
    server.carry_out(WriteZnodes((SetData("/a", b"x", -1),), None))
    assert server.multis == [[SetData("/a", b"x", -1)]]


@pytest.mark.parametrize("ephemeral", [True, False], ids=["ephemeral", "persistent"])
@pytest.mark.parametrize("kind", [Create, CreateSequential])
def test_znode_is_created_in_the_requested_mode(
    kind: type[Create | CreateSequential], ephemeral: bool
) -> None:
    driven = SessionHarness()
    driven.ready()
    (sent,) = driven.submit(WriteAtomically((kind("/a", b"x", ephemeral),)))
    assert peer.multi_operations(sent.body) == [kind("/a", b"x", ephemeral)]


def test_failed_write_keeps_its_error_and_the_others_are_carried_out() -> None:
    server = Server({EPOCH: 4, "/a": 7, "/b": 2, "/c": 0})
    command = WriteZnodes(tuple(SetData(path, b"x", 0) for path in ("/c", "/b", "/a", "/d")), 4)
    assert results(server.carry_out(command)) == (
        [OK, BAD_VERSION, BAD_VERSION, NO_NODE],
        [1, -1, -1, -1],
    )


def test_changed_epoch_fences_all_writes_with_one_request() -> None:
    server = Server({EPOCH: 5} | {f"/{n}": 0 for n in range(5000)}, flight_requests_max=1)
    command = WriteZnodes(tuple(SetData(f"/{n}", b"x", 0) for n in range(5000)), 4)
    assert results(server.carry_out(command))[0] == [FENCED] * 5000
    assert len(server.multis) == 1


def test_missing_epoch_fences_all_writes() -> None:
    server = Server({"/a": 0})
    assert results(server.carry_out(WriteZnodes((SetData("/a", b"", 0),), 4)))[0] == [FENCED]


def test_child_is_created_although_its_parent_exists() -> None:
    server = Server({EPOCH: 0, "/t": 3})
    command = WriteZnodes((Create("/t"), Create("/t/0"), Create("/t/0/state", b"s")), 0)
    assert results(server.carry_out(command)) == ([NODE_EXISTS, OK, OK], [-1, 0, 0])


@pytest.mark.parametrize(
    "dependent",
    [
        (Create("/t"), Create("/t/0"), Create("/u"), Create("/u/0")),
        (SetData("/s", b"", 0), SetData("/s", b"", 1)),
        (Delete("/s/0", 0), Delete("/s", 0)),
    ],
    ids=["its parent", "the same path", "its child"],
)
def test_multi_waits_for_one_in_flight_that_it_depends_on(
    dependent: tuple[WriteOperation, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "MULTI_ITEMS_MAX", 2)
    server = Server({"/x": 5, "/s": 0, "/s/0": 0})
    command = WriteZnodes((SetData("/x", b"", 0), *dependent), None)
    assert results(server.carry_out(command))[0] == [BAD_VERSION] + [OK] * len(dependent)


def test_failed_write_is_repeated_after_an_earlier_one_that_it_depends_on() -> None:
    """Another client changes the znode between the two attempts."""
    driven = SessionHarness()
    driven.ready()
    driven.events()
    delete, change = Delete("/a", 5), SetData("/a", b"x", 5)
    (both,) = driven.submit(WriteZnodes((delete, change), None))
    (first,) = driven.receive(
        peer.reply(both.xid, peer.multi_body((delete, change), [OK, NO_NODE], []))
    )
    assert peer.multi_operations(first.body) == [delete]
    (second,) = driven.receive(peer.reply(first.xid, peer.multi_body((delete,), [BAD_VERSION], [])))
    assert peer.multi_operations(second.body) == [change]
    driven.receive(peer.reply(second.xid, peer.multi_body((change,), [BAD_VERSION], [])))
    assert results(driven.events())[0] == [BAD_VERSION, BAD_VERSION]


SMALL = "/a"
LONG = "/" + "x" * 700


@pytest.mark.parametrize(
    ("operation", "chroot"),
    [
        (Create(SMALL, bytes(620)), ""),
        (SetData(SMALL, bytes(620), 0), ""),
        (SetData(LONG, b"", 0), ""),
        (SetData(SMALL, b"", 0), LONG),
    ],
    ids=["data and ACLs", "data", "paths", "chroot"],
)
def test_writes_are_split_below_the_servers_limit(operation: Create | SetData, chroot: str) -> None:
    operations = tuple(structs.replace(operation, path=f"{operation.path}{n}") for n in range(1000))
    existing = [] if isinstance(operation, Create) else [one.path for one in operations]
    server = Server({chroot + path: 0 for path in ["", *existing]}, chroot=chroot)
    assert results(server.carry_out(WriteZnodes(operations, None)))[0] == [OK] * 1000
    assert len(server.sizes) == 2
    assert max(server.sizes) <= writes.MULTI_BYTES_MAX


def test_write_above_the_limit_is_sent_alone() -> None:
    server = Server({"/a": 0, "/b": 0, "/c": 0})
    large = bytes(writes.MULTI_BYTES_MAX)
    command = WriteZnodes(
        (SetData("/a", large, 0), SetData("/b", b"", 0), SetData("/c", large, 0)), None
    )
    assert results(server.carry_out(command)) == ([OK] * 3, [1] * 3)
    assert [[one.path for one in multi] for multi in server.multis] == [["/a"], ["/b"], ["/c"]]


def test_many_failures_need_few_requests() -> None:
    server = Server({f"/{n}": 1 if n % 100 == 7 else 0 for n in range(10_000)})
    command = WriteZnodes(tuple(SetData(f"/{n}", b"x", 0) for n in range(10_000)), None)
    errors, _ = results(server.carry_out(command))
    assert errors.count(BAD_VERSION) == 100
    assert len(server.multis) < 500


def test_lost_connection_keeps_the_answered_writes() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.events()
    operations = tuple(Create(f"/{n}") for n in range(2500))
    first, _, _ = driven.submit(WriteZnodes(operations, None))
    driven.receive(
        peer.reply(first.xid, peer.multi_body(operations[:1000], [0] * 1000, [0] * 1000))
    )
    driven.lose()
    errors, versions = results(driven.events()[:-1])
    assert errors == [OK] * 1000 + [CONNECTION_LOSS] * 1500
    assert versions == [0] * 1000 + [-1] * 1500


def test_lost_connection_keeps_the_error_of_a_failed_write() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.events()
    operations = (SetData("/a", b"", 0), SetData("/b", b"", 0))
    (both,) = driven.submit(WriteZnodes(operations, None))
    driven.receive(peer.reply(both.xid, peer.multi_body(operations, [OK, BAD_VERSION], [])))
    driven.lose()
    assert results(driven.events()[:-1])[0] == [CONNECTION_LOSS, BAD_VERSION]


@pytest.mark.parametrize("kind", ["separate", "atomic"])
def test_rejected_multi_is_the_error_of_all_its_writes(kind: str) -> None:
    driven = SessionHarness()
    driven.ready()
    driven.events()
    operations = (Create("/a"), Create("/b"))
    command = WriteAtomically(operations) if kind == "atomic" else WriteZnodes(operations, None)
    (sent,) = driven.submit(command)
    assert driven.receive(peer.reply(sent.xid, error=THROTTLED)) == []
    assert driven.events() == [ZnodesWritten(CommandId(1, 1), 0, [THROTTLED] * 2, [-1, -1])]


def test_failed_atomic_write_reports_its_failed_operation() -> None:
    server = Server({"/a": 1})
    command = WriteAtomically((Create("/b"), SetData("/a", b"", 0), Create("/c")))
    assert server.carry_out(command) == [
        ZnodesWritten(
            CommandId(1, 1),
            0,
            [RUNTIME_INCONSISTENCY, BAD_VERSION, RUNTIME_INCONSISTENCY],
            [-1, -1, -1],
        )
    ]
    assert server.tree.versions.keys() == {"", "/a"}


PATHS = st.sampled_from(["/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a", "/c"])
VERSIONS = st.sampled_from([-1, 0, 1, 2])
OPERATIONS = st.one_of(
    st.builds(Create, PATHS, st.just(b"x")),
    st.builds(SetData, PATHS, st.just(b"x"), VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


@given(
    operations=st.lists(OPERATIONS, min_size=1, max_size=30),
    existing=st.dictionaries(st.sampled_from(["/a", "/b"]), st.integers(0, 2)),
    multi_items=st.integers(1, 8),
    in_flight=st.integers(1, 5),
)
def test_batched_writes_have_the_results_of_single_ones(
    operations: list[WriteOperation], existing: dict[str, int], multi_items: int, in_flight: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "MULTI_ITEMS_MAX", multi_items)
        server = Server(existing, flight_requests_max=in_flight)
        reported = results(server.carry_out(WriteZnodes(tuple(operations), None)))
    alone = Tree(existing)
    expected = [alone.one(operation) for operation in operations]
    assert reported == ([error for error, _ in expected], [version for _, version in expected])
    assert server.tree.versions == alone.versions
