"""Planting replaces code in every module that has imported it, and restores it."""

from contextlib import suppress

from controller.core import zookeeper_io
from controller.core.fold import Fold
from controller.core.procedures.role import controller_election, failover
from tests.races.planting import Replacement, planted, reach, take_reached


def test_function_is_replaced_in_every_module_that_imported_it() -> None:
    right = zookeeper_io.read_stats
    modules = [vars(one) for one in (zookeeper_io, controller_election, failover)]
    wrong = Replacement("controller.core.zookeeper_io:read_stats", lambda original: print)
    with planted((wrong,)):
        assert [one["read_stats"] for one in modules] == [print, print, print]
    assert [one["read_stats"] for one in modules] == [right, right, right]


def test_method_is_replaced_and_restored_after_an_exception() -> None:
    right = Fold._end_term
    wrong = Replacement("controller.core.fold:Fold._end_term", lambda original: print)
    with suppress(KeyError), planted((wrong,)):
        assert Fold._end_term is print
        raise KeyError
    assert Fold._end_term is right


def test_reaching_is_reported_once() -> None:
    with planted(()):
        reach()
        assert take_reached()
        assert not take_reached()
