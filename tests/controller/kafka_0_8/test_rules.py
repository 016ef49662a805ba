"""The rules in the code are those of the table in docs/design-0.8.md."""

import re
from pathlib import Path

import pytest

from controller.kafka_0_8 import rules
from replay.world.kafka_0_8.scenarios import SCENARIOS

PAGE = Path(__file__).parents[3] / "docs/design-0.8.md"
_ROW = re.compile(r"(?m)^\| ([A-Z]-\d\d) \| ([^|]+) \| ([^|]+) \|$")
SOURCES = ("page", "V2", "V3", "K", "ours")


def table() -> dict[str, tuple[str, str]]:
    """Rule and source, by id."""
    return {id: (rule, source) for id, rule, source in _ROW.findall(PAGE.read_text("utf-8"))}


def coded() -> list[str]:
    """The rules in the code."""
    return [one for name, one in vars(rules).items() if name.isupper()]


def test_every_rule_of_the_code_is_in_the_table_word_for_word() -> None:
    listed = {f"{id} {rule}" for id, (rule, _) in table().items()}
    assert [one for one in coded() if one not in listed] == []


def test_every_rule_has_one_id_and_a_known_source() -> None:
    ids = [id for id, _, _ in _ROW.findall(PAGE.read_text("utf-8"))]
    assert len(ids) == len(set(ids))
    assert [id for id, (_, source) in table().items() if not source.startswith(SOURCES)] == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_every_decision_has_a_rule_of_the_table(scenario) -> None:
    for process in scenario().cluster.brokers.values():
        for run in process.runs:
            for _, issued in run:
                for one in issued:
                    assert one.reason.rule in coded()
