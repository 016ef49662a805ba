"""A shadow follows the files of a cluster, and reports where refold decides otherwise."""

import logging
import shutil
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from controller.core import election
from controller.core.znodes import CONTROLLER
from eventstore.errors import LogError
from replay.agreement.comparison import agree
from replay.agreement.live import LiveAgreement, LiveSettings
from replay.agreement.results import Divergence
from replay.shadow.shadow import Shadow
from replay.shadow.status import read_status
from replay.shadow.summary import ShadowResult
from replay.stock_clusters.broker_logs.growing import GrowingBrokerLog
from replay.stock_clusters.imports.following import FollowedImport, find_start
from replay.stock_clusters.zookeeper_log.transactions import Create, Multi
from tools.zookeeper_log.file_format import write_log
from tools.zookeeper_log.incidents import transactions_of

Get = Callable[[str], Path]


class Clock:
    """A monotonic clock that moves only with `wait`."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FollowedFolder:
    """A shadow of the files in a folder; each of its logs is a folder of `logs`."""

    def __init__(
        self,
        source: Path,
        logs: Path,
        metrics: Path | None = None,
        broker_logs: Sequence[Path] = (),
        settings: LiveSettings | None = None,
    ) -> None:
        self.clock = Clock()
        self.afters: list[int] = []

        def begin(after: int) -> FollowedImport:
            self.afters.append(after)
            log = logs / str(len(self.afters))
            read = [GrowingBrokerLog(one, UTC) for one in broker_logs]
            return FollowedImport(find_start(source, None, after), log, read)

        self.shadow = Shadow(begin, settings or LiveSettings(), self.clock, metrics)

    def run(self, seconds: float = 5.0) -> list[Divergence]:
        """Step for this time by the clock; returns what was reported."""
        end = self.clock.now + seconds
        found: list[Divergence] = []
        while self.clock.now < end:
            found += self.shadow.step()
            self.clock.now += 0.5
        return found


@pytest.fixture
def source(folder_of: Get, tmp_path: Path) -> Path:
    shutil.copytree(folder_of("chaos-5") / "zookeeper", tmp_path / "source")
    return tmp_path / "source" / "version-2"


@pytest.fixture
def crash(folder_of: Get, tmp_path: Path) -> Path:
    shutil.copytree(folder_of("broker-crash-2") / "zookeeper", tmp_path / "source")
    return tmp_path / "source" / "version-2"


def wrong_offline_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """refold chooses the last live replica of the ISR for a partition without a leader."""
    rule = election.offline_partition_leader
    monkeypatch.setattr(
        election,
        "offline_partition_leader",
        lambda replicas, *rest: rule(replicas[::-1], *rest),
    )


def counts(result: ShadowResult) -> tuple[int, ...]:
    return result.decisions, result.agreed, result.diverging, result.inputs


def test_summary_is_the_result_of_agree_on_the_log(source: Path, tmp_path: Path) -> None:
    followed = FollowedFolder(source, tmp_path / "logs")
    followed.run()
    result = followed.shadow.end()
    expected = agree(tmp_path / "logs" / "1")
    assert counts(result) == (320, 320, 0, 16)
    assert (result.decisions, result.agreed) == (expected.decisions, expected.agreed)
    assert result.requests.unjudged == expected.requests.unjudged > 0
    assert (result.unseen_decisions, result.undecided, result.is_whole) == (0, 0, False)
    assert result.logs == [str(tmp_path / "logs" / "1")]


@pytest.mark.long
def test_difference_that_another_order_explains_does_not_differ(
    folder_of: Get, tmp_path: Path
) -> None:
    followed = FollowedFolder(folder_of("zk-session-expiry-1") / "zookeeper", tmp_path / "logs")
    followed.run(60)
    result = followed.shadow.end()
    assert [one.rule for one in result.explained] == ["either-order"]
    assert (result.unexplained, result.is_explained) == (0, True)
    status = read_status(tmp_path / "logs" / "1")
    assert status is not None
    assert (status.decisions.explained, status.decisions.different, status.problem) == (1, 0, "")


@pytest.mark.long
def test_counts_are_in_the_folder_of_the_log_and_in_the_metrics(
    crash: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong_offline_leader(monkeypatch)
    followed = FollowedFolder(crash, tmp_path / "logs", tmp_path / "shadow.prom")
    followed.run()
    status = read_status(tmp_path / "logs" / "1")
    result = followed.shadow.end()
    assert status is not None
    assert status.decisions.different == result.differs > 0
    assert status.decisions.agreed == result.agreed
    assert status.problem == (
        f"The shadow reports {result.differs} decisions and 0 requests that differ; `refold agree`"
        " shows them."
    )
    families = text_string_to_metric_families((tmp_path / "shadow.prom").read_text())
    values = {
        (sample.name, sample.labels.get("result")): sample.value
        for family in families
        for sample in family.samples
    }
    assert values["refold_shadow_decisions", "differs"] == result.differs
    assert values["refold_shadow_requests", "unseen"] == result.requests.unjudged
    assert values["refold_shadow_zxid", None] == result.zxid
    assert values["refold_shadow_time", None] == pytest.approx(status.time)


def test_metrics_that_cannot_be_written_end_the_run(crash: Path, tmp_path: Path) -> None:
    followed = FollowedFolder(crash, tmp_path / "logs", tmp_path / "missing" / "shadow.prom")
    with pytest.raises(LogError, match=r"shadow.prom: cannot be written: No such file"):
        followed.run()
    followed.shadow.abandon()


def test_log_of_another_command_has_no_status(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    (tmp_path / "shadow.json").write_text("{")
    with pytest.raises(LogError, match="cannot be read"):
        read_status(tmp_path)


def elect_kraft_controllers(log: Path) -> None:
    """Change each election of a broker in a transaction log to one of KRaft controller 3000."""

    def changed(one: Any) -> Any:
        if isinstance(one, Multi):
            return structs.replace(one, operations=tuple(map(changed, one.operations)))
        if isinstance(one, Create) and one.path == CONTROLLER:
            data = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}'
            return structs.replace(one, data=data)
        return one

    written = [structs.replace(one, content=changed(one.content)) for one in transactions_of(log)]
    size = log.stat().st_size
    with log.open("wb") as stream:
        write_log(stream, written, preallocated=size)


def test_role_of_a_kraft_controller_is_reported_once_and_its_decisions_are_counted(
    crash: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [log] = crash.glob("log.*")
    elect_kraft_controllers(log)
    caplog.set_level(logging.INFO, "replay")
    metrics = tmp_path / "shadow.prom"
    followed = FollowedFolder(crash, tmp_path / "logs", metrics)
    followed.run()
    result = followed.shadow.end()
    of_kraft = sum(one.decisions for one in result.kraft_terms)
    assert of_kraft > 100
    # Two brokers also stood for election, and were refused.
    assert (result.decisions, result.agreed, result.unseen_decisions) == (2, 2, 0)
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [one.getMessage().partition(" took the role: ")[0] for one in warnings] == [
        f"KRaft controller 3000 in controller epoch {epoch} (KRaft epoch 5)" for epoch in (1, 2, 3)
    ]
    assert vars(warnings[0])["fields"] == {"code": "shadow_kraft"}
    counts = [one.getMessage() for one in caplog.records if "decisions agreed" in one.getMessage()]
    assert f" {of_kraft} of KRaft controllers," in counts[-1]
    assert f"refold_shadow_kraft_decisions {of_kraft}.0" in metrics.read_text()


def test_files_that_grow_are_followed(source: Path, tmp_path: Path) -> None:
    """The second file appears later."""
    [last] = [one for one in source.iterdir() if one.name == "log.13c"]
    content = last.read_bytes()
    last.unlink()
    followed = FollowedFolder(source, tmp_path / "logs")
    followed.run()
    before = followed.shadow.memory
    last.write_bytes(content)
    followed.run()
    assert before > 0
    assert counts(followed.shadow.end()) == (320, 320, 0, 16)


@pytest.mark.long
def test_missing_transactions_begin_another_log(source: Path, tmp_path: Path) -> None:
    """The files were purged meanwhile; the next snapshot shows the state."""
    [first, last] = sorted(one for one in source.iterdir() if one.name.startswith("log."))
    content, whole = last.read_bytes(), first.read_bytes()
    last.unlink()
    first.write_bytes(whole[: len(whole) // 8] + bytes(1000))
    followed = FollowedFolder(source, tmp_path / "logs")
    followed.run()
    last.write_bytes(content)
    followed.run(20)
    result = followed.shadow.end()
    assert len(result.logs) == len(followed.afters) == 2
    assert followed.afters[0] == 0 < followed.afters[1] < 0x13B
    assert result.missing_transactions == 0x13B - followed.afters[1]
    assert (result.diverging, result.is_whole) == (0, False)
    assert 100 < result.decisions < 320


@pytest.mark.long
def test_changed_rule_is_logged_and_listed_with_records_in_between(
    crash: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "replay")
    wrong_offline_leader(monkeypatch)
    followed = FollowedFolder(crash, tmp_path / "logs")
    followed.run()
    result = followed.shadow.end()
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert result.differs == len(warnings) > 0
    assert "differs partition_state zxid" in warnings[0].getMessage()
    assert "offline partition leader election" in warnings[0].getMessage()
    assert vars(warnings[0])["fields"] == {"code": "shadow_differs"}
    assert all(one.between for one in result.divergences)


@pytest.mark.long
def test_nothing_is_reported_twice(
    crash: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong_offline_leader(monkeypatch)
    followed = FollowedFolder(crash, tmp_path / "logs")
    followed.run(60)
    reported = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    result = followed.shadow.end()
    assert len(reported) == len({*reported}) == result.differs


def test_settings_that_show_later_compare_the_log_again(
    crash: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "replay")
    followed = FollowedFolder(crash, tmp_path / "logs")
    followed.run()
    once = [True]
    monkeypatch.setattr(LiveAgreement, "is_outdated", property(lambda _: bool(once and once.pop())))
    result = followed.shadow.end()
    texts = [one.getMessage() for one in caplog.records]
    assert sum("the log is compared again from its beginning" in one for one in texts) == 1
    assert counts(result)[1:3] == (105, 0)


def test_log_of_a_shadow_is_complete_for_other_commands(crash: Path, tmp_path: Path) -> None:
    followed = FollowedFolder(crash, tmp_path / "logs")
    followed.run(1)
    followed.shadow.end()
    again = agree(tmp_path / "logs" / "1")
    assert again.notes == ["starts from snapshot.0"]


@pytest.mark.parametrize("every", [3, 7])
def test_damaged_lines_do_not_accuse_the_controller(
    every: int, folder_of: Get, tmp_path: Path
) -> None:
    """As in `refold agree`: what such a line could have shown is not judged."""
    shutil.copytree(folder_of("unclean-3"), tmp_path / "source")
    logs = sorted((tmp_path / "source" / "logs").glob("*/state-change.log"))
    for log in logs:
        lines = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(
            b"".join(b"x" + one if at % every == 0 else one for at, one in enumerate(lines))
        )
    followed = FollowedFolder(
        tmp_path / "source" / "zookeeper", tmp_path / "logs", broker_logs=logs
    )
    followed.run(60)
    result = followed.shadow.end()
    assert (result.diverging, result.requests.diverging) == (0, 0)
    assert sum(result.damaged.values()) > 0
    assert any("are not in Kafka's layout" in one for one in result.notes)
    assert result.requests.unjudged > 0
    assert not result.is_whole
    expected = agree(tmp_path / "logs" / "1")
    assert (expected.diverging, expected.requests.diverging) == (0, 0)
    assert expected.damaged == result.damaged


# A controller that has nothing more to do ---------------------------------------------------------


@pytest.fixture
def refusing(folder_of: Get, tmp_path: Path) -> FollowedFolder:
    """A shadow with unclean elections, of brokers without. The files end when the controller does
    not elect a leader for u-0 and u2-0. Its session timeout is 6 s."""
    source = folder_of("unclean-setting-1")
    shutil.copytree(source / "zookeeper", tmp_path / "zookeeper")
    return FollowedFolder(
        tmp_path / "zookeeper" / "version-2",
        tmp_path / "logs",
        broker_logs=sorted(source.glob("logs/*/*.log")),
        settings=LiveSettings(given={"unclean.leader.election.enable": "true"}),
    )


@pytest.fixture
def transactions(refusing: FollowedFolder, tmp_path: Path) -> Path:
    """The log file that ZooKeeper writes to."""
    return max((tmp_path / "zookeeper" / "version-2").glob("log.*"))


def extra_paths(found: Iterable[Divergence]) -> list[str]:
    return [one.paths[0] for one in found if (one.subject, one.verdict) == ("decision", "extra")]


WITHOUT_LEADER = [f"/brokers/topics/{one}/partitions/0/state" for one in ("u", "u2")]


def test_decision_that_the_controller_never_makes_is_reported_once(
    refusing: FollowedFolder, tmp_path: Path
) -> None:
    before = refusing.run(9)
    assert extra_paths(before) == []
    status = read_status(tmp_path / "logs" / "1")
    assert status is not None
    assert (status.decisions.extra, status.undecided) == (0, 2)
    assert extra_paths(refusing.run(4)) == WITHOUT_LEADER
    assert refusing.run(25) == []
    status = read_status(tmp_path / "logs" / "1")
    assert status is not None
    assert (status.decisions.extra, status.decisions.unseen, status.undecided) == (2, 0, 0)
    assert extra_paths(refusing.shadow.end().divergences) == WITHOUT_LEADER


def test_decision_that_the_controller_may_still_make_is_undecided_and_named(
    refusing: FollowedFolder,
) -> None:
    refusing.run(3)
    result = refusing.shadow.end()
    assert (result.extra, result.undecided, result.is_whole) == (0, 2, False)
    named = [one for one in result.notes if one.startswith("undecided: partition_state at ")]
    assert [path in note for path, note in zip(WITHOUT_LEADER, named, strict=True)] == [True, True]


def test_log_of_a_shadow_ends_when_everything_was_read(
    refusing: FollowedFolder, tmp_path: Path
) -> None:
    """Hence `refold agree` also finds that the controller has made no decision."""
    refusing.run(15)
    refusing.shadow.end()
    again = agree(tmp_path / "logs" / "1", settings={"unclean.leader.election.enable": "true"})
    assert extra_paths(again.divergences) == WITHOUT_LEADER
    assert again.undecided == 0


def test_silence_shows_nothing_if_transactions_cannot_be_read(
    refusing: FollowedFolder, transactions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server has preallocated zeros after the last transaction; the next one is damaged."""
    content = transactions.read_bytes()
    end = len(content.rstrip(b"\0")) + 1
    transactions.write_bytes(content[:end] + bytes(range(1, 100)) + content[end + 99 :])
    assert extra_paths(refusing.run(20)) == []
    result = refusing.shadow.end()
    assert (result.extra, result.is_cut) == (0, True)
    assert "ZooKeeper's log cannot be read further: " in caplog.text
