"""Defects that runs reached and no invariant noticed, or that few runs reached."""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from controller.core.procedures import dynamic_configuration
from controller.core.procedures.reassignment import reassign_partitions_extra, rollback
from controller.core.procedures.topics import deletion
from controller.core.triggers import Follow
from replay.world.inputs import (
    CancelReassignment,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    CrashBroker,
    DeleteControllerZnode,
    DeleteTopic,
    EndCancellation,
    HoldLink,
    Input,
    Reassign,
    StopBroker,
    Target,
)
from tests.replay.explore.defects import assert_defect_breaks


def _counts_confirmations_of_earlier_terms(patch: pytest.MonkeyPatch) -> None:
    never = SimpleNamespace(applies=lambda configuration: False)
    patch.setattr(deletion, "DELETIONS_OF_THIS_TERM", never)


def _ignores_min_insync_replicas(patch: pytest.MonkeyPatch) -> None:
    async def one(controller: Any, topics: list[str], rule: str) -> dict[str, int]:
        return dict.fromkeys(topics, 1)

    patch.setattr(rollback, "read_min_insync_replicas", one)


def _moves_entries_once(patch: pytest.MonkeyPatch) -> None:
    """An entry of the extra znode stays if the other znode was written meanwhile."""
    patch.setattr(reassign_partitions_extra, "ExtraReassignments", Follow)


def _ignores_the_default_of_unclean_elections(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dynamic_configuration, "UncleanLeaderElectionEnable", Follow)


# Broker 2 has created its logs again when it receives the requests of the second term late.
_DELETION: tuple[Input, ...] = (
    DeleteTopic(8_000, "orders", "znode"),
    DeleteControllerZnode(8_006),
    HoldLink(8_060, "refold 100", "broker 2", 100),
)
# Of the originals 1 and 2, only broker 1 is in sync, and so is broker 3 of the target.
_ROLLBACK: tuple[Input, ...] = (
    ChangeTopicConfig(4_000, "payments", {"min.insync.replicas": "2"}),
    CrashBroker(5_500, 4, restart_after_ms=9_000),
    Reassign(6_000, (Target("payments", 0, (3, 4)),), "znode"),
    StopBroker(9_000, 2, restart_after_ms=7_000),
    CancelReassignment(11_000, (), "znode"),
    EndCancellation(17_000),
)
_WRITERS: tuple[Input, ...] = (
    Reassign(8_000, (Target("orders", 0, (1, 2, 4)),), "extra"),
    Reassign(8_009, (Target("orders", 1, (2, 3, 4)),), "znode"),
)
# Broker 1 is the only member of the ISR of payments-0 and stays down; the default changes last.
_OFFLINE: tuple[Input, ...] = (
    StopBroker(4_000, 2, restart_after_ms=5_000),
    CrashBroker(6_000, 1, restart_after_ms=None),
    ChangeBrokerConfig(17_000, None, {"unclean.leader.election.enable": "true"}),
)


@pytest.mark.parametrize(
    ("plant", "inputs", "invariant"),
    [
        (_counts_confirmations_of_earlier_terms, _DELETION, "deletions-confirmed"),
        (_ignores_min_insync_replicas, _ROLLBACK, "rollback-keeps-in-sync"),
        (_ignores_the_default_of_unclean_elections, _OFFLINE, "partitions-led"),
        (_moves_entries_once, _WRITERS, "reassignments-ended"),
    ],
)
def test_defect_breaks_an_invariant_and_the_code_without_it_breaks_none(
    plant: Any, inputs: Sequence[Input], invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_defect_breaks(invariant, inputs, partial(plant, monkeypatch))
