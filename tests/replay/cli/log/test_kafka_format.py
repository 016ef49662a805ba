"""`refold log show --format kafka` from the command line."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.replay.cli.command import REFOLD
from tests.replay.recorded_log import incident, write_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("logs") / "log", incident())


def shown(log: Path | str, *options: str, **streams: object) -> subprocess.CompletedProcess[str]:
    command = [*REFOLD, "log", "show", str(log), "--format", "kafka", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, **streams)  # type: ignore[call-overload, no-any-return]


def test_lines_of_both_files_are_in_order_of_time(log: Path) -> None:
    done = shown(log)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[1] == (
        "[2023-11-14 22:13:20,008] INFO [Controller id=1000] 1000 successfully elected as the "
        "controller. Epoch incremented to 1 and epoch zk version is now 1 "
        "(kafka.controller.KafkaController)"
    )
    assert any(line.endswith("(state.change.logger)") for line in lines)
    times = [line[1:24] for line in lines if line.startswith("[")]
    assert times == sorted(times)


@pytest.mark.long
def test_range_selects_lines_by_number_or_time(log: Path) -> None:
    whole = shown(log).stdout.splitlines()
    assert shown(log, "--from", "1").stdout.splitlines() == whole
    later = shown(log, "--from", "2023-11-14T22:13:20.050", "--to", "2023-11-14T22:13:20.080")
    expected = [line for line in whole if "20,050" <= line[18:24] <= "20,080"]
    assert later.stdout.splitlines() == expected
    assert len(shown(log, "--to", "8").stdout.splitlines()) == 2


def test_lines_of_0_8_are_those_about_brokers(log: Path) -> None:
    lines = shown(log, "--format", "kafka-0.8").stdout.splitlines()
    assert any("[BrokerChangeListener on Controller 1000]: Newly added" in one for one in lines)
    assert not any("state.change.logger" in one for one in lines)


def test_range_without_lines_is_reported(log: Path) -> None:
    done = shown(log, "--from", "9999")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"refold log: {log}: Kafka's controller would have logged nothing\n"
    done = shown(log, "--format", "kafka-0.8", "--from", "9999")
    assert done.stderr == (
        f"refold log: {log}: Kafka's controller would have logged none of the five lines of Kafka"
        " 0.8\n"
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    "options",
    ["--kind watch_fired", "--subject t-0", "--channel session", "--term 1", "--limit 3", "--json"],
)
def test_filters_by_content_are_refused(log: Path, options: str) -> None:
    done = shown(log, *options.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "use grep to select its lines" in done.stderr


def test_log_of_a_core_that_decides_differently_is_refused(tmp_path: Path) -> None:
    simulation = incident()
    place = next(n for n, (_, issued) in enumerate(simulation.history) if len(issued) > 2)
    recorded, issued = simulation.history[place]
    simulation.history[place] = (recorded, issued[:-1])
    done = shown(write_log(tmp_path / "log", simulation, fingerprint="another"))
    assert done.returncode == 2
    assert done.stderr.startswith("refold log: recorded by core another")
    assert "run that version" in done.stderr


def test_path_without_a_log_is_an_error(tmp_path: Path) -> None:
    done = shown(tmp_path / "nothing")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_stream_is_read_from_standard_input(log: Path) -> None:
    sent = subprocess.run(
        [*REFOLD, "log", "copy", str(log), "-"], capture_output=True, check=True
    ).stdout
    command = [*REFOLD, "log", "show", "-", "--format", "kafka"]
    received = subprocess.run(command, input=sent, capture_output=True, check=True).stdout
    assert received.decode() == shown(log).stdout


def test_closed_pipe_causes_no_error(log: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [*REFOLD, "log", "show", str(log), "--format", "kafka"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")
