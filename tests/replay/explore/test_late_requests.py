"""Requests that a broker sent before it restarted, and that arrive afterwards (KIP-380)."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from controller.core import error_codes
from controller.core.api_requests.alter_partition import AlterPartitionResponse
from controller.core.api_requests.controlled_shutdown import ControlledShutdownResponse
from controller.core.api_requests.producer_ids import AllocateProducerIdsResponse
from controller.core.commands import Command, CommandId, Reason
from controller.core.controller import Controller
from controller.core.procedures.admin import producer_ids
from controller.core.procedures.brokers import controlled_shutdown
from controller.core.procedures.elections import alter_partition
from replay.explore.generators.scenarios import generic
from replay.explore.invariants.requests import EarlierRunsRefused
from replay.explore.run import run
from replay.world.inputs import (
    AllocateProducerIds,
    CrashBroker,
    ExpireSession,
    HoldLink,
    Input,
    StopBroker,
)
from tests.replay.explore.invariants.facts import History

_HELD = HoldLink(7_000, "broker 2", "refold 100", 3_000, accepts=True)
_SHUTDOWN: tuple[Input, ...] = (
    _HELD,
    StopBroker(7_000, 2, restart_after_ms=0),
    CrashBroker(7_003, 2, restart_after_ms=0),
    ExpireSession(7_004, "broker 2"),
)
# Broker 3 returns after a restart, and broker 2 asks for an ISR with it.
_ISR: tuple[Input, ...] = (
    _HELD,
    StopBroker(5_500, 3, restart_after_ms=0),
    CrashBroker(8_003, 2, restart_after_ms=0),
    ExpireSession(8_004, "broker 2"),
)
_PRODUCER_IDS: tuple[Input, ...] = (
    _HELD,
    AllocateProducerIds(7_000, 2),
    CrashBroker(7_003, 2, restart_after_ms=0),
    ExpireSession(7_004, "broker 2"),
)
_ids = ["controlled shutdown", "AlterPartition", "AllocateProducerIds"]


@pytest.mark.parametrize(
    ("response", "inputs"),
    [
        (ControlledShutdownResponse, _SHUTDOWN),
        (AlterPartitionResponse, _ISR),
        (AllocateProducerIdsResponse, _PRODUCER_IDS),
    ],
    ids=_ids,
)
def test_late_request_of_a_broker_that_has_restarted_is_refused(
    response: type[Any], inputs: Sequence[Input], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = []
    issue = Controller.issue

    def recorded(controller: Controller, command: Command, reason: Reason) -> CommandId:
        if isinstance(command, response):
            errors.append(command.error)
        return issue(controller, command, reason)

    monkeypatch.setattr(Controller, "issue", recorded)
    assert run(generic(standby=(False,)), inputs).violation is None
    assert error_codes.STALE_BROKER_EPOCH in errors


@pytest.mark.parametrize(
    ("module", "inputs"),
    [(controlled_shutdown, _SHUTDOWN), (alter_partition, _ISR), (producer_ids, _PRODUCER_IDS)],
    ids=_ids,
)
def test_controller_that_does_not_check_the_broker_epoch_is_reported(
    module: Any, inputs: Sequence[Input], monkeypatch: pytest.MonkeyPatch
) -> None:
    lenient = vars(error_codes) | {"STALE_BROKER_EPOCH": error_codes.NONE}
    monkeypatch.setattr(module, "error_codes", SimpleNamespace(**lenient))
    found = run(generic(standby=(False,)), inputs).violation
    assert found is not None
    assert found.invariant == "earlier-runs-refused"


@pytest.mark.parametrize(
    ("asked", "known", "is_right"),
    [(101, 101, True), (101, 102, False), (101, None, False), (-1, 101, True)],
)
def test_request_with_another_broker_epoch_than_the_known_one_is_reported(
    asked: int, known: int | None, is_right: bool
) -> None:
    history = History(EarlierRunsRefused)
    history.known.broker_epoch_known_to = lambda process, broker: known
    history.invariant.granted("refold 100", 1, asked)
    assert bool(history.reported) is not is_right
