"""Reports about a group of divergences."""

from replay.diff.comparing import Group, Instance
from replay.diff.grouping import Root, divergences, signature
from replay.diff.reports import sentences
from tests.replay.diff.samples import decision


def group(*consequences: list[str]) -> Group:
    """A group with an instance for each list of consequences."""
    [found] = divergences([decision({"leader": 1})], [decision({"leader": 2})])
    root = Root(found)
    return Group("id", signature(found), [Instance("a log", root, one) for one in consequences])


def test_consequences_of_later_instances_are_counted() -> None:
    found = group(["t-0 1 s longer"], ["t-1 1 s longer", "t-2 1 s longer"], [], ["t-3 ends"])
    assert sentences.outcomes_elsewhere(found) == (
        "and 3 more consequences in other places (--format json has all)"
    )


def test_consequences_of_a_single_instance_are_not_counted() -> None:
    assert sentences.outcomes_elsewhere(group(["t-0 1 s longer"], [])) == ""
    assert sentences.outcomes_elsewhere(group(["t-0 1 s longer"])) == ""
