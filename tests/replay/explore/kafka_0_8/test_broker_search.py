"""`refold explore --design 0.8`."""

import json

import pytest
from typer.testing import CliRunner

from controller.kafka_0_8 import records
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.procedures import isr
from controller.kafka_0_8.state import Partition
from replay.cli.main import app
from replay.explore.kafka_0_8.acts import Act, drawn
from replay.explore.kafka_0_8.monitor import COMMITTED_RECORDS_KEPT
from replay.explore.kafka_0_8.search import play, search, shrunk
from replay.explore.numbers import Numbers

FLAW = [
    Act("produce", 3, topic="u", number=-1),
    Act("wait", number=150),
    Act("cut", 3, 4),
    Act("stop", 4, number=1),
    Act("start", 4),
    Act("stop", 3, number=1),
    Act("wait", number=1000),
]
"""A record of u-0 is committed; its follower restarts without reaching the leader, which dies."""


def test_flaw_of_the_design_is_found_and_named() -> None:
    _, violation = play(FLAW)
    assert violation is not None
    assert violation.invariant == COMMITTED_RECORDS_KEPT
    assert "record r0 of u-0 was acknowledged with acks -1 and is lost" in violation.text


def test_needless_acts_are_left_out() -> None:
    padded = [Act("produce", 1), *FLAW[:2], Act("lose-connection", 2), *FLAW[2:], Act("delete")]
    _, violation = play(padded)
    assert violation is not None
    broken = shrunk(7, padded, violation)
    assert broken.acts == FLAW
    assert broken.story[3] == "stop broker 4; its session ends"


def test_search_with_the_same_seed_is_the_same() -> None:
    first, second = (search(5, lambda done: done < 5) for _ in range(2))
    assert first == second
    assert first.runs == 5
    assert first.violation is None


def test_acts_of_all_kinds_are_drawn() -> None:
    found = drawn(Numbers(1), 300)
    assert len({one.what for one in found}) == 12
    assert all(str(one) for one in found)


def test_high_watermark_that_does_not_wait_for_the_isr_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def commit_at_once(broker: Broker, partition: Partition) -> None:
        partition.local.hw = max(partition.local.hw, partition.local.leo)

    monkeypatch.setattr(records, "commit", commit_at_once)
    found = search(1, lambda done: done < 20)
    assert found.violation is not None
    assert found.violation.invariant == "isr-has-committed-records"


def test_isr_that_does_not_grow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr, "has_caught_up", lambda partition, replica: False)
    found = search(1, lambda done: done < 20)
    assert found.violation is not None
    assert found.violation.invariant == "replicas-catch-up"


def test_command_prints_the_result() -> None:
    result = CliRunner().invoke(app, ["explore", "--design", "0.8", "--runs", "3", "--seed", "1"])
    assert result.exit_code == 0
    assert "no violation in 3 runs" in result.stdout
    arguments = ["explore", "--design", "0.8", "--runs", "2", "--seed", "1", "--json"]
    document = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert (document["runs"], document["violation"]) == (2, None)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--design", "0.9"], "'0.9' is not a design"),
        (["--design", "0.8", "--workers", "2"], "leave out --workers"),
    ],
)
def test_unusable_options_are_refused(arguments: list[str], why: str) -> None:
    result = CliRunner().invoke(app, ["explore", *arguments])
    assert result.exit_code == 2
    assert why in result.stderr
