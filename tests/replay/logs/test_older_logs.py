"""Logs with events of older versions are explained and compared.

The commit before ElectLeaders had a time-out (d8a6c2e) wrote `elect_leaders_1.tar.xz` for a
simulated cluster. An election znode existed when the controller took the role. The ISR of t-0 was
broker 1 when that broker died. A client requested an unclean leader (event 67,
`elect_leaders_received` in version 1), and broker 1 returned. The header lacks later settings.
"""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.canonical import EVENT_SCHEMAS, decode_event, encode_event
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.cli.main import app
from replay.diff.reports import sentences
from replay.logs.older_events import UPCASTS
from replay.logs.open_log import RecordedLog, open_log
from replay.logs.packed import log_at
from tests.replay.diff import versions
from tests.replay.diff.test_comparing import diff
from tests.replay.why.asked import asked, plain

LOG = Path(__file__).parent / "elect_leaders_1.tar.xz"
ELECT_LEADERS = "elect_leaders_received"
KINDS = (
    "session_connected",
    "session_disconnected",
    "session_expired",
    "watch_fired",
    "znodes_read",
    "children_read",
    "znodes_written",
    "broker_answered",
    "channel_fault",
    "versions_offered",
    "broker_probed",
    "alter_partition_received",
    "controlled_shutdown_received",
    "allocate_producer_ids_received",
    "alter_partition_reassignments_received",
    "list_partition_reassignments_received",
    "elect_leaders_received",
    "create_topics_received",
    "create_partitions_received",
    "delete_topics_received",
    "update_features_received",
    "alter_user_scram_credentials_received",
    "timer_fired",
    "topic_ids_drawn",
    "numbers_drawn",
    "shutdown_requested",
)
"""The kinds of events in logs, in version 1 of their fields."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_in_existing_logs_leads_to_its_present_version(kind: str) -> None:
    steps = [version for stored, version in UPCASTS if stored == kind]
    assert sorted(steps) == list(range(1, EVENT_SCHEMAS[kind]))


def test_event_of_version_1_is_read_as_the_current_version() -> None:
    with log_at(LOG) as log, LogReader.open(log) as stored, open_log(log) as opened:
        selected = EventFilter(kinds=(ELECT_LEADERS,))
        [old], [event] = stored.events(selected), opened.reader.events(selected)
        assert (old.schema, event.schema) == (1, EVENT_SCHEMAS[ELECT_LEADERS])
        assert len(msgspec.msgpack.decode(old.payload)) == 5
        request = ElectLeadersReceived(2, 2, "unclean", [("t", 0)], timeout_ms=0)
        assert decode_event(event.payload) == request


def test_time_out_of_an_event_of_version_1_is_kept() -> None:
    """The first logs with time-outs still had the old version number."""
    payload = encode_event(ElectLeadersReceived(2, 2, "unclean", None, timeout_ms=30_000))
    assert UPCASTS[ELECT_LEADERS, 1].payload(payload) == payload


def test_later_settings_are_disabled_for_an_older_log() -> None:
    with open_log(LOG) as log:
        assert isinstance(log, RecordedLog)
        later = {
            "is_broker",
            "kip_236_enable",
            "checks_topic_versions",
            "reports_refusals_together",
        }
        assert not later & set(log.reader.header.configuration)
        assert not log.configuration.is_broker
        assert not log.configuration.has_kip_236
        assert not log.configuration.checks_topic_versions
        assert not log.configuration.reports_refusals_together


def test_why_explains_an_older_log() -> None:
    answer = asked(LOG, topic="t", partition=0)
    assert plain(answer.answer).startswith(
        "t-0 has had leader 2 since event N: a client requested an election; no replica in sync "
        "was online, so by an unclean election, as requested, 2 leads as the first replica that "
        "was online; passed over: 1 is not online, 3 is not in sync."
    )
    elected = next(one for one in answer.chain if one.rule.startswith("unclean"))
    assert elected.because is not None
    assert (elected.because.seq, elected.because.procedure) == (67, "ElectLeaders")
    [note] = answer.notes
    # Since then every unclean election is logged as `unclean_leader`.
    assert "from event 69 on, this core decides differently" in note


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("inspect", "--partition", "t-0"), "t-0       │ online"),
        (("events", "--kind", ELECT_LEADERS), "67  2023"),
        (("decisions", "--rule", "unclean partition"), "t-0: leader 2, unclean leader"),
    ],
)
def test_older_log_is_listed(command: tuple[str, ...], text: str) -> None:
    name, *options = command
    result = CliRunner().invoke(app, [name, str(LOG), *options])
    assert result.exit_code == 0, result.output
    assert text in result.stdout


@pytest.mark.long
@pytest.mark.timeout(240)
def test_diff_compares_an_older_log(tmp_path: Path) -> None:
    same = diff(tmp_path / "same", (), LOG)
    assert (same.errors, same.groups) == ([], [])
    assert same.logs[0].left_at == (69, 69)
    found = diff(tmp_path, (versions.NEVER_UNCLEAN,), LOG)
    assert not found.errors
    [group] = found.groups
    assert sentences.title(group).startswith("unclean partition leader election")
    assert group.first.root.first.cause == "ElectLeaders"
