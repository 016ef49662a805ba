"""docs/log-codes.md explains every code that the core reports."""

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


def test_warning_about_min_insync_replicas_is_about_the_replicas_before_the_move() -> None:
    meaning = TEXTS["below_min_insync_replicas"].meaning
    assert "replicas before the move are fewer than `min.insync.replicas`" in meaning
