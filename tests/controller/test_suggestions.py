"""The end of a message about an unknown name."""

import pytest

from controller.suggestions import did_you_mean, there_are


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("order", ["orders", "audit"], "did you mean orders? Topics: audit, orders"),
        ("x", ["orders", "audit"], "topics: audit, orders"),
        ("x", [], "topics: none"),
        (
            "x",
            [f"topic-{number}" for number in range(12)],
            "topics: topic-0, topic-1, topic-10, topic-11, topic-2, topic-3, topic-4, topic-5, "
            "topic-6, topic-7 and 2 more",
        ),
    ],
)
def test_message_names_what_exists(name: str, known: list[str], expected: str) -> None:
    assert there_are("topics", name, known) == expected


def test_name_that_is_less_similar_than_required_is_not_suggested() -> None:
    assert did_you_mean("order", ["orders"], cutoff=0.95) == ""
