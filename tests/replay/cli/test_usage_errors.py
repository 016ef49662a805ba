"""Values of options that cannot be used."""

import pytest
from typer.testing import CliRunner

from replay.cli.main import app

LOG = "tests/incidents/broker-crash"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("what-if", LOG, "--drop", "x"), "'--drop': 'x' is not a whole number"),
        (("what-if", LOG, "--branches", "1.5"), "'--branches': '1.5' is not a whole number"),
        (("what-if", LOG, "--branches", "0"), "'--branches': '0' is too small: give at least 1"),
        (("what-if", LOG, "--workers", "9999"), "'--workers': '9999' is too large: give at most "),
        (("explore", "--seconds", "soon"), "'--seconds': 'soon' is not a number"),
        (("report", LOG, "--format", "pdf"), "'--format': 'pdf' is not one of 'html', "),
        (("log", "show", LOG, "--format", "a\nb"), "'--format': 'a\\nb' is not one of "),
    ],
)
def test_value_that_cannot_be_used_is_named_with_what_it_should_be(
    arguments: tuple[str, ...], words: str
) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert f"Invalid value for {words}" in result.stderr
