from pathlib import Path

import pytest

from replay.diff.accepted import AcceptedChange, accept, read_accepted
from replay.diff.comparing import Comparison, Group, Instance, Side
from replay.diff.grouping import DecisionDivergence, RootDivergence
from replay.errors import DiffError


def comparison(*logs: str) -> Comparison:
    """A comparison with one group of divergences in these logs."""
    first = DecisionDivergence("changed", "set", "/a", "a rule", "a rule", 1, 0, "", "")
    group = Group(
        "12345678", ("changed",), [Instance(one, RootDivergence(first), []) for one in logs]
    )
    side = Side("main", "0.1.0", "0123")
    return Comparison(side, side, [], [group])


def test_listed_change_is_accepted_with_its_reason() -> None:
    found = comparison("a", "b")
    accept(found, [AcceptedChange("12345678", "wanted")])
    assert found.groups[0].accepted == "wanted"
    assert found.unaccepted() == []
    assert found.unused == []


def test_change_must_be_accepted_in_every_log() -> None:
    found = comparison("a", "b")
    accept(found, [AcceptedChange("12345678", "wanted", "a")])
    assert found.unaccepted() == found.groups
    accept(
        found, [AcceptedChange("12345678", "here", "a"), AcceptedChange("12345678", "there", "b")]
    )
    assert found.groups[0].accepted == "here; there"


def test_first_entry_for_a_change_has_the_reason() -> None:
    found = comparison("a", "b")
    accept(found, [AcceptedChange("12345678", "first"), AcceptedChange("12345678", "second")])
    assert found.groups[0].accepted == "first"
    assert found.unused == []


def test_unused_entry_is_reported() -> None:
    found = comparison("a")
    accept(found, [AcceptedChange("00000000", "long done")])
    assert found.unused == ["00000000 (long done)"]
    assert found.unaccepted() == found.groups


def test_accepted_changes_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text('[[accepted]]\nid = "12345678"\nwhy = "wanted"\nlog = "a"\n')
    assert read_accepted(path) == [AcceptedChange("12345678", "wanted", "a")]
    path.write_text("")
    assert read_accepted(path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[accepted", "cannot be used"),
        ('[[accepted]]\nid = "1"\n', "why"),
        ('[[accepted]]\nid = "1"\nwhy = " "\n', "has no reason"),
        ('[[accepted]]\nid = "1"\nwhy = "a"\nrule = "b"\n', "rule"),
    ],
)
def test_invalid_file_is_rejected(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(content)
    with pytest.raises(DiffError, match=message) as caught:
        read_accepted(path)
    assert str(path) in str(caught.value)


def test_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DiffError, match="No such file"):
        read_accepted(tmp_path / "none.toml")
