"""The option that writes the golden transcripts again, and ACLs of ZooKeeper.

The simulated ZooKeeper has no ACLs, so the fixtures change the outcomes that it returns.
"""

from typing import Any

import pytest

from controller.core.commands import ReadChildren, ReadZnodes, WriteAtomically, WriteZnodes
from controller.core.events import ChildrenRead, ZnodesRead, ZnodesWritten
from controller.core.operations import NO_AUTH, OK, RUNTIME_INCONSISTENCY
from replay.world.kafka_0_8 import cluster as world


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-broker-transcripts",
        action="store_true",
        help="write tests/transcripts/kafka_0_8/*.txt again",
    )


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths whose ACL allows no read."""
    paths: list[str] = []
    original = world.carry_out

    def carry_out(zookeeper: Any, session: int, id: Any, command: Any, now_ms: int) -> list[Any]:
        outcomes = original(zookeeper, session, id, command, now_ms)
        for one in outcomes:
            if isinstance(command, ReadZnodes) and isinstance(one, ZnodesRead):
                for place in range(len(one.errors)):
                    if command.paths[one.offset + place] in paths and not one.errors[place]:
                        one.errors[place], one.data[place] = NO_AUTH, None
                        one.versions[place] = one.czxids[place] = one.owners[place] = 0
        if isinstance(command, ReadChildren) and command.path in paths:
            return [ChildrenRead(id, NO_AUTH, [])]
        return list(outcomes)

    monkeypatch.setattr(world, "carry_out", carry_out)
    return paths


@pytest.fixture
def unwritable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths whose ACL allows no access in a transaction."""
    paths: list[str] = []
    original = world.carry_out

    def carry_out(zookeeper: Any, session: int, id: Any, command: Any, now_ms: int) -> list[Any]:
        if isinstance(command, WriteAtomically):
            for place, operation in enumerate(command.operations):
                if operation.path in paths:
                    later = len(command.operations) - place - 1
                    errors = [OK] * place + [NO_AUTH] + [RUNTIME_INCONSISTENCY] * later
                    return [ZnodesWritten(id, 0, errors, [-1] * len(errors))]
        return list(original(zookeeper, session, id, command, now_ms))

    monkeypatch.setattr(world, "carry_out", carry_out)
    return paths


@pytest.fixture
def unwritable_alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths whose ACL allows no write outside of a transaction."""
    paths: list[str] = []
    original = world.carry_out

    def carry_out(zookeeper: Any, session: int, id: Any, command: Any, now_ms: int) -> list[Any]:
        operations = command.operations if isinstance(command, WriteZnodes) else ()
        if any(one.path in paths for one in operations):
            return [ZnodesWritten(id, 0, [NO_AUTH], [-1])]
        return list(original(zookeeper, session, id, command, now_ms))

    monkeypatch.setattr(world, "carry_out", carry_out)
    return paths
