"""Tables that commands print, with and without a terminal."""

import io
import sys

import pytest
from rich.table import Table

from controller.cli.output import print_table


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


LONG = "inter.broker.protocol.version"


def table() -> Table:
    made = Table("setting", "what to do")
    made.add_row(LONG, "look " * 100)
    return made


def test_row_of_a_table_is_one_line_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(table())
    (row,) = [line for line in capsys.readouterr().out.splitlines() if LONG in line]
    assert row.count("look") == 100


def test_long_words_of_a_table_are_folded_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "30")
    print_table(table())
    rows = [line.split("│") for line in terminal.getvalue().splitlines() if "│" in line]
    assert "".join(row[1].strip() for row in rows) == LONG
    assert sum(row[2].count("look") for row in rows) == 100
    assert all(len("│".join(row)) <= 30 for row in rows)
