"""What reports say of a group."""

from replay.diff.comparing import Group, Instance
from replay.diff.grouping import Root, divergences, signature
from replay.diff.reports import sentences
from tests.replay.diff.samples import decision


def group(*consequences: list[str]) -> Group:
    """One with an instance for each list of what came of it."""
    [found] = divergences([decision({"leader": 1})], [decision({"leader": 2})])
    root = Root(found)
    return Group("id", signature(found), [Instance("a log", root, one) for one in consequences])


def test_what_came_of_later_instances_is_counted() -> None:
    found = group(["t-0 1 s longer"], ["t-1 1 s longer", "t-2 1 s longer"], [], ["t-3 ends"])
    assert sentences.outcomes_elsewhere(found) == (
        "and 3 more consequences in other places (--format json has all)"
    )


def test_nothing_more_came_of_it() -> None:
    assert sentences.outcomes_elsewhere(group(["t-0 1 s longer"], [])) == ""
    assert sentences.outcomes_elsewhere(group(["t-0 1 s longer"])) == ""
