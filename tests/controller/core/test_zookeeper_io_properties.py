"""Results of writes match the tree, with any losses and any concurrent writes."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.core.commands import (
    CommandId,
    ReadZnodes,
    Reason,
    SyncZnodes,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.events import ZnodesRead, ZnodesWritten
from controller.core.operations import (
    CONNECTION_LOSS,
    OK,
    SESSION_EXPIRED,
    Create,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import write
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from replay.world.zookeeper import ZooKeeper
from tests.controller.core.driving import ControllerHarness

PATHS = ("/a", "/b", "/c", "/d")
ANY_ID = CommandId(0, 0)
OURS, THEIRS = b"ours", b"theirs"


class Loss(NamedTuple):
    """How a command ends: `answered` operations have a reply, and the first `done` are carried out.

    Then another client changes, deletes or creates the znodes in `changed`.
    """

    answered: int
    done: int
    changed: tuple[str, ...]


DONE, LOST = Loss(0, 1, ()), Loss(0, 0, ())


@st.composite
def operations(draw: st.DrawFn) -> list[WriteOperation]:
    """One write to each of some paths, at the right version, a wrong one or any."""
    chosen: list[WriteOperation] = []
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=4, unique=True)):
        version = draw(st.sampled_from((ANY_VERSION, 0, 1)))
        kinds: tuple[WriteOperation, ...] = (
            Create(path, OURS),
            SetData(path, OURS, version),
            Delete(path, version),
        )
        chosen.append(draw(st.sampled_from(kinds)))
    return chosen


losses = st.lists(
    st.none()
    | st.builds(
        Loss,
        st.integers(0, 4),
        st.integers(0, 4),
        st.lists(st.sampled_from(PATHS), max_size=2).map(tuple),
    ),
    max_size=6,
)


class LossyServer:
    """Answers a driven controller as servers with breaking connections do.

    After each loss a lagging server answers, until a sync.
    """

    def __init__(self, driven: ControllerHarness, plan: Sequence[Loss | None]) -> None:
        self.driven = driven
        self.happened: dict[str, int] = {}
        self.changed: dict[str, None] = {}
        self._plan = list(plan)
        self._laggard: ZooKeeper | None = None
        self._is_behind = False

    def reply(self, command: ZooKeeperCommand) -> list[ZooKeeperOutcome] | None:
        loss = self._plan.pop(0) if self._plan else None
        if isinstance(command, WriteZnodes):
            return [self._write(command, loss)]
        self._is_behind = bool(loss) or (self._is_behind and not isinstance(command, SyncZnodes))
        match command:
            case SyncZnodes() if loss:
                return [ZnodesWritten(ANY_ID, 0, [CONNECTION_LOSS], [-1])]
            case ReadZnodes(paths=paths) if loss:
                lost, nothing = [CONNECTION_LOSS] * len(paths), [-1] * len(paths)
                none: list[bytes | None] = [None] * len(paths)
                return [ZnodesRead(ANY_ID, 0, lost, none, nothing, nothing, nothing, nothing)]
            case ReadZnodes() if self._is_behind and self._laggard:
                return carry_out(self._laggard, self.driven.session, ANY_ID, command, 0)
        return None

    def _write(self, command: WriteZnodes, loss: Loss | None) -> ZnodesWritten:
        count = len(command.operations)
        before = self.driven.zookeeper.copy()
        answered, done, changed = loss or Loss(count, count, ())
        outcomes = [self._carry_out(command, place) for place in range(min(done, count))]
        errors = [one.errors[0] for one in outcomes[:answered]]
        versions = [one.versions[0] for one in outcomes[:answered]]
        lost = count - len(errors)
        if lost:
            self._laggard, self._is_behind = before, True
        for path in changed:
            self._change(path)
        return ZnodesWritten(ANY_ID, 0, errors + [CONNECTION_LOSS] * lost, versions + [-1] * lost)

    def _carry_out(self, command: WriteZnodes, place: int) -> ZnodesWritten:
        one = WriteZnodes((command.operations[place],), command.epoch_version)
        world, session = self.driven.zookeeper, self.driven.session
        (written,) = carry_out(world, session, ANY_ID, one, 0)
        assert isinstance(written, ZnodesWritten)
        if written.errors == [OK]:
            path = command.operations[place].path
            self.happened[path] = self.happened.get(path, 0) + 1
        return written

    def _change(self, path: str) -> None:
        self.changed[path] = None
        if self.driven.data(path) == THEIRS:
            self.driven.remove(path)
        else:
            self.driven.put(path, THEIRS)


@settings(max_examples=200)
@example(operations=[Create("/a", OURS)], there=[], plan=[DONE, LOST])
@example(operations=[Create("/a", OURS)], there=[], plan=[DONE, None, LOST])
@given(
    operations=operations(),
    there=st.lists(st.sampled_from(PATHS), unique=True),
    plan=losses,
)
def test_results_match_the_tree(
    operations: list[WriteOperation], there: list[str], plan: list[Loss | None]
) -> None:
    driven = ControllerHarness()
    for path in there:
        driven.put(path, b"before")
    server = LossyServer(driven, plan)
    driven.reply = server.reply

    done = driven.run(write(driven.controller, operations, Reason("test")))

    for operation, error, version in zip(operations, done.errors, done.versions, strict=True):
        path, is_ok = operation.path, error == OK
        assert error not in (CONNECTION_LOSS, SESSION_EXPIRED)
        if path in server.changed:
            if driven.data(path) == OURS:
                assert is_ok, "the znode has our content, and the write is reported as failed"
        elif isinstance(operation, Delete):
            # The znode is deleted, by this controller or by another client.
            assert is_ok or not server.happened.get(path)
            assert not is_ok or driven.data(path) is None
        else:
            assert server.happened.get(path, 0) == int(is_ok), "once if it is OK, else never"
            assert not is_ok or driven.version(path) == version
