"""The terminal program, driven by keys and the mouse."""

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partialmethod
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from replay.cli.debug.app import DebugApp
from replay.cli.debug.command import debug
from replay.cli.main import app
from replay.index.making import make_index
from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log
from replay.logs.packed import log_at
from tests.replay.cli.debug.terminal import ROOT, Terminal, debugging
from tests.replay.debug.damaged import log_with_changed_event

INCIDENT = ROOT / "tests/incidents/broker-crash"
WIDE = (150, 30)


# Steps


def partitions_shown(terminal: Terminal) -> dict[str, tuple[str, str, str]]:
    """Status, leader and ISR of the partitions in the state panel of a wide screen."""
    panel = [line.partition("│")[2].split() for line in terminal.lines]
    rows = [words for words in panel if words and words[0].startswith(("orders-", "moved-"))]
    return {name: (status, leader, isr) for name, status, leader, _, isr, *_ in rows}


@pytest.mark.long
async def test_state_on_the_screen_equals_an_independent_fold_in_both_directions() -> None:
    with open_log(INCIDENT) as log:
        expected = {
            seq: {
                one.name: (one.status, str(one.leader), ",".join(map(str, one.isr or ())))
                for one in cluster_at(log, seq).partitions()
            }
            for seq in range(68, 74)
        }
    assert len({str(one) for one in expected.values()}) > 2
    async with debugging(seq=68, size=WIDE) as terminal:
        seq = 68
        for key, step in [("n", 1)] * 5 + [("p", -1)] * 5:
            await terminal.press(key)
            seq += step
            assert f"event {seq} of 124" in terminal.lines[0]
            assert partitions_shown(terminal) == expected[seq]


async def test_keys_step_by_event_decision_procedure_and_failover() -> None:
    async with debugging() as terminal:
        stops = {
            "n down right left up p": (73, 74, 75, 74, 73, 72),
            "d D": (73, 72),
            "o O f F": (83, 68, 124, 6),
            "home up end": (1, 1, 124),
        }
        for keys, events in stops.items():
            for key, seq in zip(keys.split(), events, strict=True):
                await terminal.press(key)
                assert terminal.lines[0].startswith(f"event {seq} of 124"), key


async def test_seconds_count_from_the_first_event_wherever_the_program_begins() -> None:
    async with debugging("tests/recordings/broker-crash-2.tar.xz", seq=862) as terminal:
        assert any("862    24.667" in line for line in terminal.lines)
        await terminal.enter("r", "offline pair_02-0")
        await terminal.enter("r", "isr pair_02-0")
        assert any("477    12.080" in line for line in terminal.lines)


async def test_end_is_the_last_event_of_a_log_that_the_list_does_not_show() -> None:
    async with debugging("tests/recordings/unclean-3.tar.xz", seq=3) as terminal:
        await terminal.press("end")
        assert "event 1095 of 1095" in terminal.lines[0]


@pytest.mark.long
async def test_event_stays_visible_when_the_terminal_is_resized() -> None:
    async with debugging() as terminal:
        for columns, rows in ((200, 60), (80, 24)):
            await terminal.pilot.resize_terminal(columns, rows)
            await terminal.settle()
            assert any("72     7.586 1 write done" in line for line in terminal.lines)


@pytest.mark.long
async def test_event_is_entered_by_number_or_time() -> None:
    async with debugging() as terminal:
        await terminal.enter("g", "70")
        assert "event 70 of 124" in terminal.lines[0]
        await terminal.enter("g", "2026-11-21T23:21:11.03")
        assert "event 71 of 124" in terminal.lines[0]


async def test_first_event_of_a_daemons_log_names_the_event_at_which_its_term_begins() -> None:
    async with debugging(seq=1, size=WIDE) as terminal:
        assert "choose event 6 or a later one" in " ".join(terminal.text.split())


# Searches, breakpoints, filter


async def test_search_backward_finds_the_last_change_of_a_leader_and_write_of_a_znode() -> None:
    async with debugging(seq=124, size=WIDE) as terminal:
        await terminal.enter("r", "znode /brokers/topics/orders/partitions/1/state")
        await terminal.press("3")
        assert "event 99 of 124" in terminal.lines[0]
        assert "outcome of command 96.4" in terminal.text
        await terminal.enter("r", "leader orders-1")
        assert "event 72 of 124" in terminal.lines[0]
        await terminal.press("full_stop")
        assert "no such event after event 72" in terminal.text


@pytest.mark.long
async def test_breakpoints_stop_in_both_directions() -> None:
    async with debugging(seq=40) as terminal:
        await terminal.press("c")
        assert "no breakpoint is set" in terminal.text
        await terminal.enter("b", "leader orders-1")
        await terminal.enter("b", "broker 2")
        await terminal.press("c")
        assert "stopped at broker 2" in terminal.text
        await terminal.enter("b", "broker 2")
        await terminal.press("c")
        assert "event 72 of 124" in terminal.lines[0]
        assert "stopped at leader orders-1" in terminal.text
        await terminal.press("end", "C")
        assert "event 72 of 124" in terminal.lines[0]


@pytest.mark.long
async def test_filter_shows_and_steps_to_events_about_a_partition() -> None:
    async with debugging() as terminal:
        await terminal.enter("t", "orders-1")
        await terminal.press("n", "n", "n")
        listed = [line for line in terminal.lines[1:8] if "broker 3 answered" in line]
        assert listed
        assert not any("moved-0 l" in line for line in listed)
        assert "filter: orders-1" in terminal.lines[0]


# A log with an index


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """The log of the incident with its index, as a long log has one."""
    with log_at(INCIDENT) as path:
        shutil.copytree(path, tmp_path / "log")
    make_index(tmp_path / "log")
    return tmp_path / "log"


async def test_index_answers_steps_searches_the_filter_and_why(indexed: Path) -> None:
    async with debugging(str(indexed), size=WIDE) as terminal:
        for key, seq in {"d": 73, "D": 72, "o": 83, "O": 68, "f": 124, "F": 6}.items():
            await terminal.press(key)
            assert terminal.lines[0].startswith(f"event {seq} of 124"), key
        await terminal.press("end")
        for condition, seq in {
            "znode /brokers/topics/orders/partitions/1/state": 99,
            "leader orders-1": 72,
            "broker 2": 70,
            "kind watch_fired": 68,
            "about moved-0": 62,
        }.items():
            await terminal.enter("r", condition)
            assert terminal.lines[0].startswith(f"event {seq} of 124"), condition
        await terminal.enter("t", "orders-1")
        await terminal.press("n", "d", "w", "enter")
        assert "filter: orders-1" in terminal.lines[0]
        assert "orders-1 has had leader 3 since event 72" in terminal.text


async def test_progress_of_a_search_is_gone_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.cli.debug.app.REPORTED_EVERY", 1)
    async with debugging("tests/incidents/broker-crash") as terminal:
        await terminal.press("end")
        await terminal.enter("r", "broker 2")
        assert "searching" not in terminal.text
        assert "(Escape: cancel)" not in terminal.text


# Causes, why, what-if


async def test_cause_of_an_effect_is_the_event_before_the_jumps() -> None:
    async with debugging(seq=71) as terminal:
        await terminal.press("e")
        assert "event 72 of 124" in terminal.lines[0]
        assert "event 71 has no other effect" in terminal.text
        await terminal.press("u")
        assert "The causes of event 72" in terminal.text
        await terminal.press("enter")
        assert "event 71 of 124" in terminal.lines[0]


@pytest.mark.long
async def test_why_shows_the_answer_and_causes_that_lead_to_events() -> None:
    async with debugging() as terminal:
        await terminal.press("w", "enter")
        assert "orders-1 has had leader 3 since event 72" in terminal.text
        await terminal.press("down", "down", "enter")
        assert "event 70 of 124" in terminal.lines[0]


async def test_why_explains_a_subject_that_is_typed_or_chosen_with_the_keys() -> None:
    async with debugging(size=WIDE) as terminal:
        await terminal.enter("w", "moved-1")
        assert "moved-1 has had leader 1" in terminal.text
        await terminal.enter("w", "broker 2")
        assert "Broker 2 has not been registered since event 70" in terminal.text
        await terminal.press("w", "down", "down", "down", "up", "enter")
        assert "Broker 1 is registered" in terminal.text
        for name, refused in (
            ("broker x", "broker x: x is not the id of a broker"),
            ("nosuch", "no topic nosuch at event 72; topics: moved, orders"),
            ("orders-9", "no partition orders-9 at event 72"),
        ):
            await terminal.enter("w", name)
            assert refused in terminal.text
            assert "Broker 1 is registered" in terminal.text


@pytest.mark.long
async def test_click_on_a_subject_explains_it() -> None:
    async with debugging(size=WIDE) as terminal:
        await terminal.press("w")
        await terminal.click("SubjectScreen OptionList", (2, 0))
        assert "orders-1 has had leader 3 since event 72" in terminal.text


@pytest.mark.long
async def test_simulation_with_another_setting_continues_at_the_event() -> None:
    async with debugging(size=WIDE) as terminal:
        await terminal.enter("x", "--set unclean.leader.election.enable=true")
        assert "continued after event 72" in terminal.text


# The mouse


async def test_click_on_an_event_moves_there() -> None:
    async with debugging() as terminal:
        seq = int(terminal.lines[2].strip(" ●▶◆").split()[0])
        await terminal.click("#events", (20, 1))
        assert f"event {seq} of 124" in terminal.lines[0]
        assert seq < 72


@pytest.mark.parametrize(
    ("columns", "last"), [(80, "q Quit"), (139, "q Quit"), (140, "f Failover")]
)
async def test_last_line_begins_with_the_key_for_all_keys_and_cuts_none(
    columns: int, last: str
) -> None:
    async with debugging(size=(columns, 24)) as terminal:
        assert terminal.lines[-1].startswith("? All keys")
        assert terminal.lines[-1].endswith(last)


async def test_click_on_a_key_in_the_footer_does_what_the_key_does() -> None:
    async with debugging() as terminal:
        await terminal.click("Footer", (terminal.lines[-1].index("Decision"), 0))
        assert "event 73 of 124" in terminal.lines[0]


# Bad input


@pytest.mark.long
async def test_wrong_input_is_refused_in_the_last_line() -> None:
    async with debugging() as terminal:
        for key, text, refused in (
            ("g", "999", "there is no event 999: the log has events 1 to 124"),
            ("g", "soon", "soon is neither a number nor a time"),
            ("slash", "leader", "leader T-0 is missing"),
            ("b", "broker x", "x is not the id of a broker"),
            ("x", "--burn 72", "--burn is not one of --set, --drop"),
            ("t", "nosuch", "no event nearby is about nosuch"),
        ):
            await terminal.enter(key, text)
            assert refused in " ".join(terminal.lines[-5:-1]), text
            assert terminal.lines[0].startswith("event 72 of 124")


@pytest.fixture
def damaged() -> Iterator[Path]:
    """A log whose event 80 was changed."""
    with log_with_changed_event(INCIDENT, 80) as folder:
        yield folder


async def test_events_before_damage_are_shown_and_the_damage_is_reported(damaged: Path) -> None:
    async with debugging(str(damaged), seq=72, size=WIDE) as terminal:
        assert "event 80: it was changed" in terminal.text
        assert "orders-1" in terminal.text
        await terminal.press("n")
        assert "event 73 of 124" in terminal.lines[0]
        await terminal.press("end")
        assert "event 80: it was changed" in terminal.text
        await terminal.press("p")
        assert "event 72 of 124" in terminal.lines[0]


class _Tty:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("name", "at", "error"),
    [
        ("no-log.txt", None, "no-log.txt: is not an SQLite file"),
        ("missing", None, "missing: no such file or folder"),
        ("damaged", "90", "event 80: it was changed, moved or inserted"),
    ],
)
def test_log_that_cannot_be_used_is_reported_before_the_screen_opens(
    name: str,
    at: str | None,
    error: str,
    damaged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "no-log.txt").write_text("hello", encoding="utf-8")
    shutil.copytree(damaged, tmp_path / "damaged")
    monkeypatch.setattr(sys, "stdin", _Tty())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "__stderr__", _Tty())
    with pytest.raises(typer.Exit) as exited:
        debug(str(tmp_path / name), at)
    assert exited.value.exit_code == 2
    printed = capsys.readouterr()
    assert error in printed.err
    assert printed.err.count("\n") == 1
    assert "\x1b[?1049h" not in printed.out


def test_program_that_ends_with_a_bug_has_the_exit_status_of_bugs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: DebugApp) -> None:
        raise IndexError

    monkeypatch.setattr(DebugApp, "on_mount", fail)
    monkeypatch.setattr(DebugApp, "run", partialmethod(DebugApp.run, headless=True))
    monkeypatch.setattr(sys, "stdin", _Tty())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "__stderr__", _Tty())
    with pytest.raises(typer.Exit) as exited:
        debug(str(INCIDENT), None)
    assert exited.value.exit_code == 70


def test_command_without_a_terminal_names_the_commands_to_use() -> None:
    result = CliRunner().invoke(app, ["debug", str(INCIDENT)])
    assert result.exit_code == 2
    assert "refold debug: this needs a terminal, and standard input is not one" in result.stderr


def test_command_with_redirected_errors_is_refused(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "replay.cli.main", "debug", str(INCIDENT)]
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        ended = subprocess.run(
            command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=file, check=False
        )
    os.close(ours)
    os.close(theirs)
    assert ended.returncode == 2
    assert "this needs a terminal, and standard error is not one" in errors.read_text()


def test_program_in_a_real_terminal_quits_with_q() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "replay.cli.main", "debug", str(INCIDENT), "--at", "72"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while b"orders-1" not in shown:
            shown += os.read(ours, 65536)
        os.write(ours, b"q")
        # Linux reports the end of the other side as an error.
        with suppress(OSError):
            while os.read(ours, 65536):
                pass
        assert process.wait() == 0
    os.close(ours)
