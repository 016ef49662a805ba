"""A check of `make demo-0.8` that does not hold ends the demonstration."""

from pathlib import Path

import pytest

from controller.kafka_0_8_broker.errors import ClientError
from tools.demo.kafka_0_8 import __main__ as demo
from tools.demo.kafka_0_8.brokers import Brokers
from tools.demo.stage import DemoFailed, Stage
from tools.lab import Lab


def test_check_that_does_not_hold_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brokers = Brokers(Stage(Lab(tmp_path), tmp_path), None, None)  # type: ignore[arg-type]
    brokers.check(True, "two and two are four")
    assert "checked: two and two are four" in capsys.readouterr().out
    with pytest.raises(DemoFailed, match="not true: two and two are five"):
        brokers.check(False, "two and two are five")


async def test_failed_request_ends_the_demonstration_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> None:
        raise ClientError("orders-0: no leader within 20 s")

    lab = Lab(tmp_path)
    monkeypatch.setattr(lab, "start_zookeeper", fails)
    with pytest.raises(DemoFailed, match="orders-0: no leader within 20 s"):
        await demo.play(Stage(lab, tmp_path))
