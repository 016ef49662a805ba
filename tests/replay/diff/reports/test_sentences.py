"""Reports about a group of divergences."""

from xml.etree import ElementTree

from msgspec import structs

from replay.diff.comparing import Comparison, Group, Instance, LogResult, Side
from replay.diff.grouping import RootDivergence, divergences, signature
from replay.diff.reports import sentences
from replay.diff.reports.as_json import as_json
from replay.diff.reports.github import github
from replay.diff.reports.junit import junit
from replay.diff.reports.markdown import markdown
from replay.diff.reports.text import text
from tests.replay.diff.samples import decision


def group(*consequences: list[str]) -> Group:
    """A group with an instance for each list of consequences."""
    [found] = divergences([decision({"leader": 1})], [decision({"leader": 2})])
    root = RootDivergence(found)
    return Group("id", signature(found), [Instance("a log", root, one) for one in consequences])


def test_consequences_of_later_instances_are_counted() -> None:
    found = group(["t-0 1 s longer"], ["t-1 1 s longer", "t-2 1 s longer"], [], ["t-3 ends"])
    assert sentences.outcomes_elsewhere(found) == (
        "and 3 more consequences in other places (--format json has all)"
    )


def test_consequences_of_a_single_instance_are_not_counted() -> None:
    assert sentences.outcomes_elsewhere(group(["t-0 1 s longer"], [])) == ""
    assert sentences.outcomes_elsewhere(group(["t-0 1 s longer"])) == ""


# Differences after an earlier one ----------------------------------------------------------------


def comparison(*groups: Group) -> Comparison:
    side = Side("a version", "0.1.0", "0" * 24)
    return Comparison(side, side, [LogResult("a"), LogResult("b")], list(groups))


def later_group(*logs: tuple[str, bool]) -> Group:
    """A group with an instance in each log, which comes after another one or not."""
    found = group([]).first.root.first
    instances = [
        Instance(log, RootDivergence(structs.replace(found, seq=number)), [], is_later=is_later)
        for number, (log, is_later) in enumerate(logs)
    ]
    return Group("id", signature(found), instances)


def test_group_shows_an_instance_that_comes_first_in_its_log() -> None:
    found = later_group(("a", True), ("b", False))
    assert found.first.log == "b"
    assert not found.is_later
    assert (
        sentences.logs_with_earlier_difference(found)
        == "in 1 log of these after an earlier difference"
    )
    assert "also in a" in sentences.effects(found)
    assert sentences.logs_with_earlier_difference(later_group(("a", False))) == ""


def test_each_format_names_groups_that_come_after_another_difference() -> None:
    cause, later = later_group(("a", False)), later_group(("a", True), ("b", True))
    found = comparison(cause, later)
    assert later.is_later
    assert sentences.summary(found).endswith(": 1 difference, 1 after an earlier difference")
    failing = found.unaccepted()
    assert text(found).count("\n  after an earlier difference in the same log\n") == 1
    assert markdown(found).count("| after an earlier difference |") == 1
    assert github(found, failing).count("%0Aafter an earlier difference in the same log") == 1
    assert '"is_later":true' in as_json(found, failing)
    suite = ElementTree.fromstring(junit(found, failing, []))
    texts = [one.text or "" for one in suite.iter("failure")]
    assert [one.count(sentences.AFTER) for one in texts] == [1, 1]
    assert not texts[0].split("\n")[1].startswith(sentences.AFTER)


def test_uncovered_changes_are_a_failing_case_in_junit() -> None:
    suite = ElementTree.fromstring(junit(comparison(), [], ["changed and never executed: a.py"]))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    [failure] = suite.iter("failure")
    assert failure.text == "changed and never executed: a.py"
