"""The rules of ZooKeeper that a controller depends on, in the simulation."""

import pytest

from controller.core.events import WatchFired
from controller.core.operations import (
    BAD_VERSION,
    NO_CHILDREN_FOR_EPHEMERALS,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    Check,
    Create,
    Delete,
    SetData,
)
from replay.world.requests import (
    AddWatch,
    CreateSequential,
    Exists,
    GetChildren,
    GetData,
    Multi,
    OperationResult,
    Request,
)
from replay.world.zookeeper import ZooKeeper
from replay.znode_tree.tree import BAD_ARGUMENTS

NOW_MS = 1_000


class Client:
    """A session of the simulated ZooKeeper, for short tests."""

    def __init__(self, world: ZooKeeper) -> None:
        self.world = world
        self.session = world.create_session()

    def ask(self, request: Request, now_ms: int = NOW_MS) -> OperationResult:
        return self.world.apply(self.session, request, now_ms).result

    def ask_all(self, *operations: Create | SetData | Delete | Check) -> list[int]:
        reply = self.world.apply(self.session, Multi(operations), NOW_MS)
        return [result.error for result in reply.results]

    def fired(self) -> list[tuple[str, str]]:
        return [(event.change, event.path) for event in self.world.take_events(self.session)]


@pytest.fixture
def world() -> ZooKeeper:
    return ZooKeeper()


@pytest.fixture
def client(world: ZooKeeper) -> Client:
    return Client(world)


@pytest.fixture
def other(world: ZooKeeper) -> Client:
    return Client(world)


def test_stat_has_the_history_of_a_znode(client: Client) -> None:
    client.ask(Create("/a", b"one"), now_ms=1)
    created = client.world.zxid
    client.ask(SetData("/a", b"three", 0), now_ms=2)
    client.ask(Create("/a/b"), now_ms=3)
    client.ask(Create("/a/c"), now_ms=4)
    client.ask(Delete("/a/b", 0), now_ms=5)

    stat = client.ask(Exists("/a")).stat

    assert stat is not None
    assert (stat.czxid, stat.mzxid, stat.pzxid) == (created, created + 1, created + 4)
    assert (stat.ctime, stat.mtime) == (1, 2)
    assert (stat.version, stat.cversion, stat.aversion) == (1, 3, 0)
    assert (stat.ephemeral_owner, stat.data_length, stat.num_children) == (0, 5, 1)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Create("/a"), NODE_EXISTS),
        (Create("/none/a"), NO_NODE),
        (Create("/a/e/b"), NO_CHILDREN_FOR_EPHEMERALS),
        (Create("/a/"), BAD_ARGUMENTS),
        (Create("a"), BAD_ARGUMENTS),
        (Create("/a/.."), BAD_ARGUMENTS),
        (Create("/"), NODE_EXISTS),
        (SetData("/a", b"", 7), BAD_VERSION),
        (SetData("/none", b"", -1), NO_NODE),
        (Delete("/a", -1), NOT_EMPTY),
        (Delete("/a/e", 1), BAD_VERSION),
        (Delete("/none", -1), NO_NODE),
        (Delete("/", -1), BAD_ARGUMENTS),
    ],
)
def test_refused_write_has_a_zxid_and_changes_nothing(
    client: Client, request_: Request, error: int
) -> None:
    client.ask(Create("/a"))
    client.ask(Create("/a/e", b"", ephemeral=True))
    before, zxid = client.world.dump(), client.world.zxid

    assert client.ask(request_).error == error
    assert client.world.dump() == before
    assert client.world.zxid == zxid + 1


@pytest.mark.parametrize("request_", [Exists("/none"), GetData("/none"), GetChildren("/none")])
def test_read_has_no_zxid(client: Client, request_: Request) -> None:
    zxid = client.world.zxid
    assert client.ask(request_).error == NO_NODE
    assert client.world.zxid == zxid


def test_sequential_names_count_the_created_children(client: Client) -> None:
    client.ask(Create("/a"))
    client.ask(Create("/a/b"))
    client.ask(Delete("/a/b", -1))
    assert client.ask(CreateSequential("/a/n-")).path == "/a/n-0000000001"
    assert client.ask(CreateSequential("/a/n-")).path == "/a/n-0000000002"


def test_multi_is_one_transaction(client: Client) -> None:
    zxid = client.world.zxid
    assert client.ask_all(Create("/a"), Create("/a/b"), SetData("/a", b"x", 0)) == [OK, OK, OK]
    stat = client.ask(GetData("/a/b")).stat
    assert stat is not None
    assert stat.czxid == client.world.zxid == zxid + 1


def test_failed_multi_changes_nothing_and_returns_the_failed_operation(
    client: Client, other: Client
) -> None:
    client.ask(Create("/a"))
    client.ask(Create("/a/gone"))
    other.ask(AddWatch("/", recursive=True))
    before = client.world.dump()

    errors = client.ask_all(
        Create("/a/b", ephemeral=True),
        Delete("/a/gone", 0),
        SetData("/a", b"x", 0),
        Check("/a", 0),
        Create("/c"),
    )

    assert errors == [OK, OK, OK, BAD_VERSION, RUNTIME_INCONSISTENCY]
    assert client.world.dump() == before
    assert client.ask(GetChildren("/a")).children == ("gone",)
    assert other.fired() == []
    client.world.end_session(client.session)
    assert other.fired() == []


def test_one_shot_watch_fires_once(client: Client, other: Client) -> None:
    client.ask(Create("/a"))
    other.ask(GetData("/a", watch=True))
    other.ask(Exists("/a", watch=True))
    other.ask(GetChildren("/a", watch=True))
    other.ask(Exists("/b", watch=True))

    for request in (SetData("/a", b"", -1), SetData("/a", b"", -1), Create("/a/c"), Create("/b")):
        client.ask(request)

    assert other.fired() == [("data", "/a"), ("children", "/a"), ("created", "/b")]


def test_deletion_fires_once_for_watches_of_data_and_children(
    client: Client, other: Client
) -> None:
    client.ask(Create("/a"))
    other.ask(GetData("/a", watch=True))
    other.ask(GetChildren("/a", watch=True))
    other.ask(GetChildren("/", watch=True))
    client.ask(Delete("/a", -1))
    client.ask(Create("/a"))
    client.ask(Create("/a/b"))
    assert other.fired() == [("deleted", "/a"), ("children", "/")]


def test_persistent_watch_fires_for_every_change_of_its_path(client: Client, other: Client) -> None:
    other.ask(AddWatch("/a"))
    for request in (
        Create("/a"),
        SetData("/a", b"", -1),
        Create("/a/b"),
        SetData("/a/b", b"", -1),
        Delete("/a/b", -1),
        Delete("/a", -1),
    ):
        client.ask(request)
    changes = ["created", "data", "children", "children", "deleted"]
    assert other.fired() == [(change, "/a") for change in changes]


def test_recursive_watch_fires_for_the_subtree_without_children_events(
    client: Client, other: Client
) -> None:
    other.ask(AddWatch("/a", recursive=True))
    for request in (Create("/a"), Create("/a/b"), Create("/ab"), Delete("/a/b", -1)):
        client.ask(request)
    assert other.fired() == [("created", "/a"), ("created", "/a/b"), ("deleted", "/a/b")]


def test_events_have_the_zxid_of_their_transaction(client: Client, other: Client) -> None:
    other.ask(AddWatch("/", recursive=True))
    client.ask_all(Create("/a"), Create("/b"))
    zxid = client.world.zxid
    assert client.world.take_events(other.session) == [
        WatchFired("/a", "created", zxid),
        WatchFired("/b", "created", zxid),
    ]


def test_ended_session_deletes_its_ephemerals_in_one_transaction(
    client: Client, other: Client
) -> None:
    client.ask(Create("/a", ephemeral=True))
    client.ask(Create("/b", ephemeral=True))
    other.ask(AddWatch("/", recursive=True))
    zxid = client.world.zxid

    client.world.end_session(client.session)

    assert client.world.zxid == zxid + 1
    assert [(one.path, one.zxid) for one in client.world.take_events(other.session)] == [
        ("/a", zxid + 1),
        ("/b", zxid + 1),
    ]
    assert other.ask(Exists("/a")).error == NO_NODE


def test_ended_session_cannot_write(client: Client) -> None:
    client.ask(Create("/e", ephemeral=True))
    client.world.end_session(client.session)
    zxid = client.world.zxid
    assert client.world.changes
    assert not client.world.is_live(client.session)
    assert client.ask(Create("/a")).error == SESSION_EXPIRED
    assert client.ask_all(Create("/a"), Create("/b")) == [SESSION_EXPIRED, SESSION_EXPIRED]
    assert client.world.zxid == zxid
    assert client.world.changes == []


def test_lost_connection_removes_watches_but_not_ephemerals(client: Client, other: Client) -> None:
    other.ask(Create("/e", ephemeral=True))
    other.ask(AddWatch("/", recursive=True))
    other.ask(GetChildren("/", watch=True))
    client.ask(Create("/a"))
    client.world.disconnect(other.session)
    client.ask(Create("/b"))
    assert other.fired() == []
    assert client.ask(Exists("/e")).error == OK


def test_copy_is_independent(client: Client, other: Client) -> None:
    client.ask(Create("/a"))
    other.ask(GetChildren("/a", watch=True))
    copy = client.world.copy()
    before = client.world.dump()

    copy.apply(client.session, Create("/a/b"), NOW_MS)
    copy.apply(client.session, Create("/a/c"), NOW_MS)
    copy.end_session(client.session)

    assert client.world.dump() == before
    assert other.fired() == []
    client.ask(Create("/a/x"))
    assert other.fired() == [("children", "/a")]
    assert copy.apply(other.session, GetChildren("/a"), NOW_MS).result.children == ("b", "c")


def test_dump_can_be_loaded(client: Client) -> None:
    client.ask(Create("/a", b"x"))
    client.ask(Create("/a/e", ephemeral=True))
    world = client.world

    loaded = ZooKeeper.load(world.dump(), world.zxid)

    assert loaded.dump() == world.dump()
    assert loaded.zxid == world.zxid
    loaded.end_session(client.session)
    world.end_session(client.session)
    assert loaded.dump() == world.dump()
