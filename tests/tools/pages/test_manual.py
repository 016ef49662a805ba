"""The manual page."""

import shutil
import subprocess

import pytest

from tools.pages import ROOT
from tools.pages.commands import command_helps
from tools.pages.manual import page

needs_man = pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")


@needs_man
def test_manual_shows_the_help_of_every_command_without_warnings() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-P-cbou", ROOT / "docs" / "refold.1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    for help in command_helps():
        assert f"Usage: {' '.join(help.words)} " in done.stdout


def test_line_that_begins_with_a_period_is_text() -> None:
    assert ".toml" in page()
    allowed = ('.\\"', ".TH", ".SH", ".B", ".nf", ".fi", ".TP")
    assert [
        one for one in page().splitlines() if one.startswith(".") and not one.startswith(allowed)
    ] == []
