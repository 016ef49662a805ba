"""docs/log-codes.md explains every code that the core reports."""

from controller.core.commands import Notice
from controller.daemon.daemon import message_of
from tools.pages.log_codes import TEXTS, codes


def test_every_code_of_the_core_is_explained_and_no_other() -> None:
    assert set(TEXTS) == set(codes())


def test_codes_have_their_levels() -> None:
    levels = codes()
    assert levels["broker_failed"] == ["warning"]
    assert levels["rollback_waits"] == ["warning"]
    assert levels["reassignment_ended"] == ["warning", "info"]
    assert levels["channel_version"] == ["error"]
    assert all(levels.values())


def test_message_names_its_subject() -> None:
    text = "its state cannot be read"
    assert message_of(Notice("warning", "c", "t-0", text)) == f"t-0: {text}"
    text = "broker 2 registered"
    assert message_of(Notice("info", "c", "broker 2", text)) == text
