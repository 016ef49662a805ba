"""A znode whose ACL does not allow a read does not count as absent (KafkaZkClient throws)."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from controller.core.commands import CommandId, ReadChildren, ZooKeeperCommand
from controller.core.controller import Controller
from controller.core.errors import ProcedureError
from controller.core.events import ChildrenRead, ZnodesRead
from controller.core.operations import NO_AUTH, OK
from controller.core.zookeeper_io import (
    read_children,
    read_children_of_each,
    read_contents,
    read_state_znodes,
    read_znodes,
)
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.driving import ControllerHarness

ANY_ID = CommandId(0, 0)
Read = Callable[[Controller], Coroutine[Any, Any, object]]


def deny_last(command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
    """The reads of /a succeed, those of /b are denied."""
    if isinstance(command, ReadChildren):
        return [ChildrenRead(ANY_ID, NO_AUTH if command.path == "/b" else OK, [])]
    none, no_data = [-1, -1], [b"{}", None]
    return [ZnodesRead(ANY_ID, 0, [OK, NO_AUTH], no_data, none, none, none, none)]


@pytest.mark.parametrize(
    "read",
    [
        lambda controller: read_znodes(controller, ["/a", "/b"], "test"),
        lambda controller: read_state_znodes(controller, ["/a", "/b"], "test"),
        lambda controller: read_contents(controller, ["/a", "/b"], "test", lambda _, data: data),
        lambda controller: read_children(controller, "/b", "test"),
        lambda controller: read_children_of_each(controller, ["/a", "/b"], "test"),
    ],
)
def test_denied_read_fails_the_procedure_and_names_the_znode(read: Read) -> None:
    driven = ControllerHarness(1)
    driven.reply = deny_last
    with pytest.raises(ProcedureError, match=r"^/b cannot be read \(NoAuth\)"):
        driven.run(read(driven.controller))
