"""The names that a topic may have."""

import pytest

from controller.core.topic_names import problem_of


@pytest.mark.parametrize(
    ("name", "is_legal"),
    [("t", True), ("x" * 249, True), ("x" * 250, False), ("...", True), ("..", False)],
)
def test_name_is_legal_up_to_its_longest_length_unless_it_means_a_folder(
    name: str, is_legal: bool
) -> None:
    assert (problem_of(name) is None) == is_legal
