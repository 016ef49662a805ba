"""`refold log mirror --redact` to a topic of a real broker."""

from pathlib import Path

import pytest

from eventstore.mirror.topic import MirrorTopic
from eventstore.writer import LogWriter
from tests.eventstore.samples import header
from tests.replay.redaction.test_files_for_others import MARK, contents, log_with_names
from tests.replay.redaction.test_redacting import refold

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


def names_in(folder: Path) -> list[str]:
    return [name for name, content in contents(folder) if MARK.encode() in content]


def test_published_logs_have_other_names_and_are_published_once(
    bootstrap: str, topic: MirrorTopic, tmp_path: Path
) -> None:
    log = log_with_names(tmp_path / "logs" / "run-a")
    place = ("--bootstrap-server", bootstrap, "--topic", topic.name)
    mirror = ("log", "mirror", tmp_path / "logs", *place, "--redact")
    first = refold(*mirror)
    assert first.exit_code == 0, first.output
    assert f"{log}: " in first.output
    again = refold(*mirror)
    assert (again.exit_code, "0 records published" in again.output) == (0, True), again.output
    with LogWriter.create(tmp_path / "logs" / "run-b", header()):
        withheld = refold(*mirror)
    assert withheld.exit_code == 1
    assert "run-b is being written" in withheld.output
    assert refold("log", "fetch", *place, "--out", tmp_path / "out").exit_code == 0
    assert names_in(log)
    assert not names_in(tmp_path / "out")
    assert "agrees" in refold("replay", tmp_path / "out" / "run-a").output


def test_redacted_log_is_not_added_to_a_topic_with_the_original_one(
    bootstrap: str, topic: MirrorTopic, tmp_path: Path
) -> None:
    log_with_names(tmp_path / "logs" / "run-a")
    mirror = ("log", "mirror", tmp_path / "logs", "--bootstrap-server", bootstrap)
    assert refold(*mirror, "--topic", topic.name).exit_code == 0
    refused = refold(*mirror, "--topic", topic.name, "--redact")
    assert refused.exit_code == 2
    assert "has a different log with the name" in refused.output
