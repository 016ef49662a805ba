"""Each name of a simulated process is of one kind."""

import pytest

from replay.explore.generators.scenarios import generic
from replay.names import broker_name, broker_named, is_broker
from replay.world.processes import (
    ADMIN,
    ZOOKEEPER,
    consumer_name,
    id_in,
    is_client,
    is_controller,
    is_refold,
    producer_name,
    refold_name,
    stock_name,
)

KINDS = {"broker": is_broker, "controller": is_controller, "refold": is_refold, "client": is_client}


@pytest.mark.parametrize(
    ("process", "kinds"),
    [
        (broker_name(1), ["broker"]),
        (stock_name(1), ["controller"]),
        (refold_name(100), ["controller", "refold"]),
        (producer_name(0), ["client"]),
        (consumer_name(0), ["client"]),
        (ADMIN, []),
        (ZOOKEEPER, []),
    ],
)
def test_name_of_a_process_has_its_kind(process: str, kinds: list[str]) -> None:
    assert [kind for kind, is_kind in KINDS.items() if is_kind(process)] == kinds


def test_number_in_a_name_is_that_of_the_process() -> None:
    names = (broker_name(3), stock_name(3), refold_name(3), producer_name(3), consumer_name(3))
    assert {id_in(name) for name in names} == {broker_named(names[0])} == {3}


def test_controllers_of_a_scenario_are_of_the_kinds_of_their_configurations() -> None:
    controllers = generic().controllers
    assert all(is_controller(one.process) for one in controllers)
    refolds = [is_refold(one.process) for one in controllers]
    assert refolds == [not one.configuration.is_broker for one in controllers]
    assert {*refolds} == {True, False}
