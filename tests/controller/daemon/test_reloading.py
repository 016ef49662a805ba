"""A daemon at SIGHUP."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import structured_log
from controller.daemon.reloading import SettingsReloader
from controller.daemon.service_manager import ServiceManager
from controller.settings.settings import Settings, SettingSources
from controller.settings.sources import RawSetting

NEEDED = "zookeeper.connect=zk:2181\nbroker.id=1000\nrefold.log.dir=/logs\n"


class ReloadedSettings:
    """A reload with the settings that it applied."""

    def __init__(self, file: Path, *flags: RawSetting) -> None:
        self._file = file
        self.change("")
        self.reloader = SettingsReloader(SettingSources(flags, {}, file), ServiceManager({}))
        self.applied: list[Settings] = []
        self.reloader.apply = self.applied.append

    def change(self, more: str) -> None:
        self._file.write_text(NEEDED + more)


@pytest.fixture
def reloaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[ReloadedSettings]:
    caplog.set_level(logging.INFO)
    yield ReloadedSettings(tmp_path / "server.properties")
    for one in ("controller", "eventstore"):
        logging.getLogger(one).setLevel(logging.NOTSET)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = caplog.messages
    caplog.clear()
    return found


@pytest.fixture(autouse=True)
def handlers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The levels that are set. The handlers of pytest stay."""
    levels: list[str] = []

    def configure(form: str, *, level: str) -> None:
        levels.append(level)
        logging.getLogger("controller").setLevel(level.upper())

    monkeypatch.setattr(structured_log, "configure", configure)
    return levels


def test_safe_settings_are_applied(
    reloaded: ReloadedSettings, handlers: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The change of the level is confirmed although the new one leaves such messages out."""
    reloaded.change(
        "refold.log.retention.bytes=5000\nrefold.log.retention.ms=60000\n"
        "refold.messages.level=error\nrefold.messages.per.minute=7\n"
    )
    reloaded.reloader.reload()
    [settings] = reloaded.applied
    assert (settings.retention_bytes, settings.retention_ms) == (5000, 60000)
    assert settings.messages_per_minute == 7
    assert handlers == ["error"]
    assert messages(caplog) == [
        "SIGHUP: settings reloaded; changed: refold.log.retention.bytes, refold.log.retention.ms, "
        "refold.messages.level, refold.messages.per.minute"
    ]


def test_settings_that_need_a_restart_are_named_until_then_without_their_values(
    reloaded: ReloadedSettings, caplog: pytest.LogCaptureFixture
) -> None:
    reloaded.change(
        "unclean.leader.election.enable=true\nrefold.listeners=PLAINTEXT://:1\n"
        "ssl.keystore.password=secret\nmax.message.bytes=9\nmin.insync.replicas=2\n"
        # A broker's key that the daemon does not use.
        "log.dirs=/data\n"
    )
    named = (
        "SIGHUP: these changes need a restart: listeners, min.insync.replicas, "
        "ssl.keystore.password, unclean.leader.election.enable"
    )
    for _ in range(2):
        reloaded.reloader.reload()
        assert messages(caplog)[-2:] == ["SIGHUP: settings reloaded; changed: none", named]
    reloaded.change("")
    reloaded.reloader.reload()
    assert messages(caplog) == ["SIGHUP: settings reloaded; changed: none"]


def test_messages_of_a_new_level_count_at_once(
    reloaded: ReloadedSettings, caplog: pytest.LogCaptureFixture
) -> None:
    reloaded.change("refold.messages.level=error\n")
    reloaded.reloader.reload()
    caplog.clear()
    reloaded.change("refold.messages.level=info\n")
    reloaded.reloader.reload()
    assert messages(caplog) == ["SIGHUP: settings reloaded; changed: refold.messages.level"]
    reloaded.change("refold.messages.level=warning\n")
    reloaded.reloader.reload()
    caplog.clear()
    reloaded.reloader.reload()
    assert messages(caplog) == []


def test_invalid_setting_changes_nothing(
    reloaded: ReloadedSettings, handlers: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    reloaded.change("refold.log.retention.ms=soon\nrefold.messages.level=error\n")
    reloaded.reloader.reload()
    assert reloaded.applied == []
    assert handlers == []
    [text] = messages(caplog)
    assert text.startswith("SIGHUP: no setting was changed: refold.log.retention.ms=soon (")
    # The repaired file is compared with the settings that are in effect.
    reloaded.change("refold.log.retention.ms=1000\n")
    reloaded.reloader.reload()
    assert messages(caplog) == ["SIGHUP: settings reloaded; changed: refold.log.retention.ms"]


def test_option_of_the_command_line_still_takes_precedence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    flag = RawSetting("refold.log.retention.ms", "9000", "--retention")
    reloaded = ReloadedSettings(tmp_path / "server.properties", flag)
    reloaded.change("refold.log.retention.ms=1000\n")
    reloaded.reloader.reload()
    assert reloaded.applied[0].retention_ms == 9000
    assert messages(caplog) == ["SIGHUP: settings reloaded; changed: none"]
