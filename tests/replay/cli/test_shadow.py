"""`refold run --mode shadow` from the command line: signals, output and exit status."""

import ctypes
import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec import structs

from replay.cli.agreement_report import print_agreement
from replay.shadow.status import read_status, write_status
from replay.shadow.summary import ShadowResult
from tests.replay.cli.command import REFOLD, refold
from tests.waiting import block_until_found

Get = Callable[[str], Path]
SHADOW = ("run", "--mode", "shadow")
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


class ShadowProcess:
    """A shadow in another process."""

    def __init__(
        self, logs: Path, *options: str | Path, before: Callable[[], None] | None = None
    ) -> None:
        """`before` runs in the process first."""
        self.logs = logs
        self._messages = (logs.parent / "messages").open("wb")
        self._process = subprocess.Popen(
            [*REFOLD, *SHADOW, "--log-dir", str(logs), "--log-format", "json", *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=self._messages,
            preexec_fn=before,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._messages.close()
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def messages(self) -> list[dict[str, Any]]:
        lines = (self.logs.parent / "messages").read_text().splitlines()
        return [json.loads(one) for one in lines if one.startswith("{")]

    def until(self, text: str) -> None:
        """Wait for a message."""

        def is_logged() -> bool:
            if any(text in one["message"] for one in self.messages()):
                return True
            assert self._process.poll() is None, (self.logs.parent / "messages").read_text()
            return False

        block_until_found(is_logged, f"the shadow logs {text!r}", 60)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def fails(self) -> tuple[int, str]:
        """The exit status and the last line, of a process that ends without a signal."""
        self._process.communicate(timeout=60)
        return self._process.returncode, (self.logs.parent / "messages").read_text()

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        self._process.send_signal(number)
        output, _ = self._process.communicate(timeout=60)
        return self._process.returncode, output.decode()


def refused(*options: str | Path) -> str:
    result = refold(*SHADOW, *options)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_prints_the_summary(number: signal.Signals, folder_of: Get, tmp_path: Path) -> None:
    source = folder_of("broker-crash-2") / "zookeeper"
    with ShadowProcess(tmp_path / "logs", "--follow-txnlog", source) as running:
        running.until("105 decisions agreed")
        status, output = running.stop(number)
    assert status == 3
    *_, last = output.splitlines()
    assert "agrees as far as judged; judged: 105 decisions" in last
    assert last.endswith("not judged: 141 requests")
    assert "unseen: 0 decisions, 0 versions of znodes, 141 requests to brokers" in output


def test_last_line_counts_unseen_decisions_as_not_judged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_agreement(ShadowResult(decisions=330, agreed=330, unseen_decisions=137, undecided=2))
    *_, last = capsys.readouterr().out.splitlines()
    assert last.endswith(
        "judged: 330 decisions, 0 requests; not judged: 137 decisions, 2 undecided"
    )


@pytest.mark.long
def test_running_shadow_shows_its_counts(folder_of: Get, tmp_path: Path) -> None:
    """`refold health` reads the growing log, and reports differences if there are any."""
    source, metrics = folder_of("broker-crash-2") / "zookeeper", tmp_path / "shadow.prom"
    options = ("--follow-txnlog", source, "--metrics-file", metrics)
    with ShadowProcess(tmp_path / "logs", *options) as running:
        running.until("105 decisions agreed, 0 differ, 0 unseen, 0 wait for evidence")
        [log] = (tmp_path / "logs").glob("run-*")
        well = refold("health", log)
        status = read_status(log)
        assert status is not None
        assert 'refold_shadow_decisions{result="agreed"} 105.0' in metrics.read_text()
        different = structs.replace(status, decisions=structs.replace(status.decisions, differs=2))
        write_status(different, log, None)
        not_well = refold("health", log)
        running.stop(signal.SIGTERM)
    assert (well.returncode, not_well.returncode) == (0, 1)
    assert "The shadow reports" not in well.stdout
    text = "The shadow reports 2 decisions and 0 requests that differ; `refold agree` shows them."
    assert text in not_well.stdout


@pytest.mark.long
def test_restarted_shadow_judges_everything_in_the_files(folder_of: Get, tmp_path: Path) -> None:
    """Also after it was killed; the log of the killed process can be read."""
    options = ("--follow-txnlog", folder_of("broker-crash-2") / "zookeeper", "--json")
    with ShadowProcess(tmp_path / "logs", *options) as running:
        running.until("105 decisions agreed")
        running.kill()
    with ShadowProcess(tmp_path / "logs", *options) as running:
        running.until("105 decisions agreed")
        _, output = running.stop(signal.SIGTERM)
    first, second = sorted((tmp_path / "logs").glob("run-*"))
    assert json.loads(output)["logs"] == [str(second)]
    again = json.loads(refold("agree", first, "--json").stdout)
    assert json.loads(output)["agreed"] == again["agreed"] == 105


@pytest.mark.long
def test_files_that_disappear_end_the_run_with_a_message(folder_of: Get, tmp_path: Path) -> None:
    source = tmp_path / "zookeeper"
    shutil.copytree(folder_of("broker-crash-2") / "zookeeper", source)
    with ShadowProcess(tmp_path / "logs", "--follow-txnlog", source) as running:
        running.until("105 decisions agreed")
        shutil.rmtree(source)
        status, messages = running.fails()
    assert status == 2
    assert f"refold run: {source}/version-2 cannot be read: No such file" in messages
    assert "Traceback" not in messages


def obeying_permissions() -> None:
    """root may read every file; without these capabilities it may not (capabilities(7))."""
    prctl = ctypes.CDLL(None).prctl
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.long
def test_file_without_permission_is_refused(folder_of: Get, tmp_path: Path) -> None:
    source = tmp_path / "version-2"
    shutil.copytree(folder_of("broker-crash-2") / "zookeeper" / "version-2", source)
    (source / "log.1").chmod(0)
    following = ("--follow-txnlog", source)
    with ShadowProcess(tmp_path / "logs", *following, before=obeying_permissions) as running:
        status, messages = running.fails()
    assert status == 2
    text = f"{source}/log.1 cannot be read: Permission denied; allow the user of refold to read it"
    assert text in messages.splitlines()[-1]
    assert "Traceback" not in messages


@pytest.mark.long
def test_next_file_without_permission_ends_the_run_with_a_message(
    folder_of: Get, tmp_path: Path
) -> None:
    """As when ZooKeeper was started again with another umask."""
    source = tmp_path / "version-2"
    shutil.copytree(folder_of("broker-crash-2") / "zookeeper" / "version-2", source)
    following = ("--follow-txnlog", source)
    with ShadowProcess(tmp_path / "logs", *following, before=obeying_permissions) as running:
        running.until("105 decisions agreed")
        (source / "log.ffff").touch(mode=0)
        status, messages = running.fails()
    assert status == 2
    text = f"refold run: {source}/log.ffff cannot be read: Permission denied; allow the user"
    assert text in messages.splitlines()[-1]
    assert "Traceback" not in messages


@pytest.mark.long
@pytest.mark.parametrize("name", ["log.ffff", "controller.log"])
def test_error_while_a_file_is_read_ends_the_run_with_a_message(
    name: str, folder_of: Get, tmp_path: Path
) -> None:
    source = tmp_path / "version-2"
    shutil.copytree(folder_of("broker-crash-2") / "zookeeper" / "version-2", source)
    (source / "controller.log").touch()
    options = ("--follow-txnlog", source, "--follow-controller-log", source / "controller.log")
    with ShadowProcess(tmp_path / "logs", *options) as running:
        running.until("decisions agreed")
        (source / name).unlink(missing_ok=True)
        # It can be opened, and the address 0 cannot be read: EIO.
        (source / name).symlink_to("/proc/self/mem")
        status, messages = running.fails()
    assert status == 2
    assert f"refold run: {source}/{name} cannot be read: Input/output error" in messages
    assert "Traceback" not in messages


@pytest.mark.sampled
@pytest.mark.parametrize("command", [("why",), ("inspect",), ("events",), ("decisions",)])
def test_log_of_a_shadow_is_usable_by_other_commands(
    command: Sequence[str], folder_of: Get, tmp_path: Path
) -> None:
    with ShadowProcess(
        tmp_path / "logs", "--follow-txnlog", folder_of("broker-crash-2") / "zookeeper"
    ) as running:
        running.until("105 decisions agreed")
        running.stop(signal.SIGTERM)
    [log] = (tmp_path / "logs").glob("run-*")
    result = refold(*command, log)
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.long
def test_followed_logs_of_brokers_judge_the_requests(folder_of: Get, tmp_path: Path) -> None:
    folder = folder_of("broker-crash-2")
    logs = [
        option
        for path in sorted(folder.glob("logs/*/*"))
        if path.name in ("controller.log", "state-change.log")
        for option in ("--follow-controller-log", path)
    ]
    options = ("--follow-txnlog", folder / "zookeeper", "--json", *logs)
    with ShadowProcess(tmp_path / "logs", *options) as running:
        running.until("105 decisions agreed")
        status, output = running.stop(signal.SIGTERM)
    summary = json.loads(output)
    assert (summary["agreed"], summary["differs"]) == (105, 0)
    assert summary["requests"]["agreed"] > 100
    assert (summary["undecided"], summary["unseen_decisions"], summary["unseen_versions"]) == (
        0,
        0,
        0,
    )
    assert refold("agree", summary["logs"][0]).returncode == status


@pytest.mark.long
def test_refold_rules_report_deviations(folder_of: Get, tmp_path: Path) -> None:
    """As `refold agree --rules refold` does on the log."""
    source = folder_of("chaos-9120556") / "zookeeper"
    options = ("--follow-txnlog", source, "--json", "--rules", "refold")
    with ShadowProcess(tmp_path / "logs", *options) as running:
        running.until("decisions agreed")
        status, output = running.stop(signal.SIGTERM)
    assert status in (1, 3)
    assert json.loads(output)["decisions"] > 0


def test_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    logs = ("--log-dir", tmp_path / "logs")
    assert "does not exist" in refused(*logs, "--follow-txnlog", tmp_path / "missing")
    assert "has no ZooKeeper transaction log" in refused(*logs, "--follow-txnlog", tmp_path)
    assert not (tmp_path / "logs").exists()


def test_log_of_a_broker_that_cannot_be_used_is_refused(folder_of: Get, tmp_path: Path) -> None:
    source = folder_of("broker-crash-2")
    options: Sequence[str | Path] = ("--log-dir", tmp_path / "logs", "--follow-txnlog", source)
    (tmp_path / "server.log").touch()
    line = refused(*options, "--follow-controller-log", tmp_path / "server.log")
    assert "its name must be controller.log or state-change.log" in line
    line = refused(*options, "--follow-controller-log", tmp_path / "controller.log")
    assert "cannot be read: No such file" in line


def without_zookeeper(folder: Path) -> Sequence[str | Path]:
    """Options of a shadow that watches. No server listens at the port."""
    (folder / "shadow.properties").write_text("zookeeper.connection.timeout.ms=1000\n")
    return ("--zookeeper", "127.0.0.1:1", "--config", folder / "shadow.properties")


def test_zookeeper_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    """With the message of the daemon."""
    line = refused("--log-dir", tmp_path / "logs", *without_zookeeper(tmp_path))
    assert "refused to start: cannot connect to ZooKeeper: no session within 1 s: no conn" in line
    assert line.endswith('check zookeeper.connect, the servers and the network"}')
    assert not (tmp_path / "logs").exists()


def test_shadow_that_waits_for_zookeeper_says_so_and_ends_at_a_signal(tmp_path: Path) -> None:
    options = (*without_zookeeper(tmp_path), "--wait-for-zookeeper")
    with ShadowProcess(tmp_path / "logs", *options) as running:
        running.until("; trying again in 1 s")
        assert running.stop(signal.SIGTERM) == (2, "")
        messages = [one["message"] for one in running.messages()]
    assert messages[-1].startswith(
        "ZooKeeper does not answer, nothing was changed: no session within 1 s: no connection to "
    )
    *_, last = (tmp_path / "messages").read_text().splitlines()
    text = "refold run: stopped before ZooKeeper 127.0.0.1:1 answered: no session within 1 s: no c"
    assert last.startswith(text)


def test_settings_of_the_daemon_are_not_needed(tmp_path: Path) -> None:
    """The mode needs refold.log.dir, and zookeeper.connect to watch."""
    assert "refold.log.dir is not set" in refused("--follow-txnlog", tmp_path)
    assert "zookeeper.connect is not set" in refused("--log-dir", tmp_path / "logs")


@pytest.mark.parametrize(
    "option",
    [
        ("--follow-txnlog", "x"),
        ("--follow-controller-log", "controller.log"),
        ("--metrics-file", "x"),
        ("--chroot", "/x"),
        ("--zone", "UTC"),
        ("--rules", "refold"),
        ("--json",),
    ],
)
def test_options_of_the_mode_are_refused_without_it(option: Sequence[str], tmp_path: Path) -> None:
    result = refold(
        *("run", "--zookeeper", "localhost", "--broker-id", "9", "--log-dir", tmp_path / "logs"),
        *option,
    )
    assert result.returncode == 2
    text = plain(result.stderr)
    assert f"Invalid value for {option[0]}: only with --mode shadow" in text
    assert ("the setting refold.rules has the rules of the controller" in text) == (
        option[0] == "--rules"
    )


WATCHES = ("--zookeeper", "localhost")
READS_FILES = ("--follow-txnlog", "x")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((*WATCHES, "--standby"), "--standby: not with --mode shadow"),
        ((*WATCHES, "--take-over"), "--take-over: not with --mode shadow"),
        ((*WATCHES, "--broker-id", "9"), "--broker-id: not with --mode shadow"),
        ((*WATCHES, "--listeners", "PLAINTEXT://:1"), "--listeners: not with --mode shadow"),
        ((*WATCHES, "--status-socket", "x"), "--status-socket: not with --mode shadow"),
        ((*WATCHES, "--mirror", "localhost:1"), "--mirror: not with --mode shadow"),
        (
            (*READS_FILES, "--inter-broker-protocol-version", "3.9", "--standby"),
            "--inter-broker-protocol-version, --standby: not with --mode shadow",
        ),
        ((*WATCHES, "--chroot", "/x"), "--chroot: only with --follow-txnlog"),
        ((*WATCHES, "--zone", "UTC"), "--zone: only with --follow-controller-log"),
        ((*READS_FILES, "--zone", "UTC"), "--zone: only with --follow-controller-log"),
        ((*READS_FILES, *WATCHES), "--zookeeper: not with --follow-txnlog"),
        (
            (*READS_FILES, "--wait-for-zookeeper"),
            "--wait-for-zookeeper: not with --follow-txnlog",
        ),
    ],
)
def test_options_without_an_effect_on_a_shadow_are_refused(
    options: Sequence[str], reason: str, tmp_path: Path
) -> None:
    result = refold(*SHADOW, "--log-dir", tmp_path / "logs", *options)
    assert result.returncode == 2
    assert f"Invalid value for {reason}" in plain(result.stderr)


def plain(text: str) -> str:
    """An error of the command line without its wrapping."""
    return " ".join(text.split())
