"""Rules written by hand, of a small source tree."""

from pathlib import Path

import pytest

from tests.tools.mutations.mutated_tree import LISTS, mutations, replace, write


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (f"{LISTS}/survivors.toml", "rule.larger", "rule.biggest", "no function rule.biggest"),
        (f"{LISTS}/survivors.toml", "a > b -> a >= b", "a < b", "[rule.larger] has no mutant"),
        ("pyproject.toml", '["product"]', '["products"]', "modules: there is no products"),
        ("pyproject.toml", '["tests"]', '["testing"]', "tests: there is no testing"),
        ("tests/test_rule.py", "(2, 1) == 2", "(2, 1) == 3", "fail without any change"),
        ("tests/test_rule.py", "import count", "import missing, count", "cannot collect"),
    ],
)
def test_rule_that_does_not_fit_the_code_is_named_in_the_error(
    tree: Path, name: str, old: str, new: str, said: str
) -> None:
    replace(tree, name, old, new)
    status, output = mutations(tree)
    assert status == 2
    assert said in output
    assert "Traceback (most recent call last)" not in output.partition("pytest cannot")[0]


# Rules by hand ------------------------------------------------------------------------------------

RESULT = """
[[rule]]
rule = "the larger number is the result"
function = "rule.larger"
result = "min(a, b, result)"
"""
BODY = """
[[rule]]
rule = "the larger number is the result"
function = "rule.larger"
body = "return min(a, b)"
"""
VALUE = """
[[rule]]
rule = "a small size counts once"
value = "rule.SIZES"
becomes = "old | {'small': 3}"
"""


def test_rules_that_their_tests_notice_are_counted(tree: Path) -> None:
    """Planted and innocuous changes are not tried."""
    others = RESULT.replace("[[rule]]", "[[planted]]") + RESULT.replace("[[rule]]", "[[innocuous]]")
    write(tree, f"{LISTS}/rules.toml", RESULT + BODY + VALUE + others)
    status, output = mutations(tree)
    assert status == 0
    assert "rules by hand: 3, 0 of them not noticed" in output


@pytest.mark.long
def test_rule_that_no_test_notices_fails_the_run(tree: Path) -> None:
    write(tree, f"{LISTS}/rules.toml", RESULT.replace("min(a, b, result)", "max(a, b)"))
    status, output = mutations(tree)
    assert status == 1
    assert "rule: the larger number is the result: no test notices" in output


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rule.larger", "rule.largest", "there is no function rule.largest"),
        (
            "result =",
            "value =",
            "needs function with body, result, mutant, or expression and becomes",
        ),
        ('result = "min(a, b, result)"', 'mutant = "not: a"', "larger has no mutant 'not: a'"),
        ("rule =", "rules =", "rules.toml"),
    ],
)
def test_rule_that_does_not_fit_the_code_is_named(
    tree: Path, old: str, new: str, said: str
) -> None:
    write(tree, f"{LISTS}/rules.toml", RESULT.replace(old, new))
    status, output = mutations(tree)
    assert status == 2
    assert said in output
    assert ("the larger number is the result" in output) != (old == "rule =")


# Tests that pages name ----------------------------------------------------------------------------
