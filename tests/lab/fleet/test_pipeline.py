"""From incidents on real clusters to the report, with the commands that a user runs. Each figure is
compared with a plain Python calculation over the same logs."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from pyarrow import dataset

from eventstore.folders import logs_in
from eventstore.reader import LogReader
from tests.lab.fleet.fleet import Fleet, Row
from tests.lab.fleet.incidents import Played, play
from tests.replay.diff.versions import ROOT
from tests.replay.fleet.live.job import log_rows, table
from tests.replay.fleet.live.mirrored import counted
from tests.replay.fleet.plain_count import PlainCount
from tests.replay.fleet.plain_decisions import (
    OFFLINE,
    agreed_by,
    decisions_not_made,
    decisions_of,
    diverging,
    elections_of,
)
from tests.replay.fleet.plain_races import Race, races_of

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2400)]

RECORDINGS = sorted((ROOT / "tests" / "recordings").iterdir())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("clusters"))


@pytest.fixture(scope="module")
def fleet(played: Played, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The first cluster's logs come from the topic, the second's from the topic and from their
    folder."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    in_place = map(str, played.second)
    sources = [str(played.fetched), *in_place, *map(str, RECORDINGS)]
    fleet.refold("ingest", *sources, "--out", str(fleet.table), "--json")
    versions = f"{ROOT},{fleet.defect}"
    fleet.refold("replay", str(fleet.table), "--versions", versions, "--json")
    fleet.refold("analyse", str(fleet.table), "--json")
    page = ["-o", str(fleet.page), "--incidents", "100"]
    fleet.refold("report", str(fleet.table), *page)
    return fleet


# The topic ----------------------------------------------------------------------------------------


def content(log: Path) -> list[object]:
    with LogReader(log) as reader:
        return [reader.header, *reader.records(), reader.closing]


def test_logs_of_the_topic_are_those_of_the_daemons(played: Played) -> None:
    logs = [*played.first, *played.second]
    assert (len(played.first), len(played.second)) == (2, 1)
    fetched = {log.name: log for log in logs_in(played.fetched)}
    assert fetched.keys() == {log.name for log in logs}
    for log in logs:
        assert content(fetched[log.name]) == content(log)


def test_health_is_what_each_daemon_knew_last(played: Played) -> None:
    rows = log_rows(played.live)
    killed, *ended = played.first
    assert rows[killed.name][0] == "superseded"
    assert {rows[one.name][0] for one in [*ended, *played.second]} == {"ended"}
    assert {trouble for _, _, trouble in rows.values()} == {None}
    plain = [counted(one[-1])[-1] for one in (played.first, played.second)]
    found = table(played.live)
    assert sorted(found.values()) == sorted(plain)
    assert min(map(len, plain)) > 0


def test_live_job_took_each_event_once(played: Played) -> None:
    batches = [json.loads(line) for line in played.output]
    events = sum(one["taken"]["events"] for one in batches)
    assert events == sum(PlainCount(one).events for one in [*played.first, *played.second])
    assert not any(one["taken"]["broken"] for one in batches)


# The table ----------------------------------------------------------------------------------------


def test_each_record_is_in_the_table_once(fleet: Fleet) -> None:
    actual = fleet.printed["ingest"]
    assert (actual["set_aside"], actual["logs"]) == (0, 3 + len(RECORDINGS))
    for log in fleet.logs:
        # The record that ends an import is not part of the incident.
        kept = [record for record, _ in log.plain.records if record.kind != "import_ended"]
        assert log.row["events"] == len(kept), log.name
        assert log.row["commands"] == log.plain.commands, log.name
    assert actual["events"] == sum(one.row["events"] for one in fleet.logs)
    assert actual["commands"] == sum(one.plain.commands for one in fleet.logs) > 0


def test_decisions_of_stock_controllers_are_those_of_an_import(fleet: Fleet) -> None:
    files = (fleet.table / "decoded").rglob("*.parquet")
    records = dataset.dataset(sorted(map(str, files)))
    observed = records.filter(dataset.field("kind") == "observed")
    found = Counter(
        (row["log"], row["rule"]) for row in observed.to_table(["log", "rule"]).to_pylist()
    )
    expected: Counter[tuple[str, str]] = Counter()
    for log in fleet.of_stock:
        assert log.imported is not None
        for kinds in (log.imported.by_kind, log.imported.warm_by_kind):
            expected.update({(log.id, kind): count for kind, count in kinds.items()})
    assert found == expected
    assert len(fleet.of_stock) == len(RECORDINGS)


# Replays ------------------------------------------------------------------------------------------


def test_replay_by_this_version_agrees_completely(fleet: Fleet) -> None:
    found = fleet.replays(ROOT)
    plain = agreed_by(ROOT, [log.path for log in fleet.of_stock])
    for log in fleet.logs:
        decisions, agreed = decisions_of(log.plain), decisions_of(log.plain)
        if log.imported is not None:
            decisions, agreed, _ = plain[log.path]
        row = found[log.id]
        counts = row["reason"], row["decisions"], row["agreed"], row["divergences"]
        assert counts == (None, decisions, agreed, 0), log.name
    [version] = [one for one in fleet.printed["replay"]["versions"] if one["version"] == str(ROOT)]
    assert version["decisions"] == version["agreed"] == sum(one["agreed"] for one in found.values())


def test_planted_defect_diverges_at_each_election_it_changes(fleet: Fleet) -> None:
    """In imported logs at each election that had a choice; in a daemon's log, which the defective
    version leaves at the first such election, at the elections of that event."""
    logs_with = 0
    for log in fleet.logs:
        divergences = fleet.divergences(log)
        assert {one["version"] for one in divergences} <= {str(fleet.defect)}
        found = {
            (one["seq"], partition)
            for one in divergences
            if one["subject"] == "decision" and one["kind"] in ("set", "partition_state")
            for partition in one["partitions"]
        }
        elections = elections_of(log.plain)
        if log.imported is None and elections:
            first = min(elections)[0]
            assert min(one["seq"] for one in divergences) == first
            assert {one["first_rule"] for one in divergences} == {OFFLINE}
            elections = {one for one in elections if one[0] == first}
            found = {one for one in found if one[0] == first}
        assert found == elections, log.name
        rules = {one["rule"] for one in divergences if one["subject"] == "decision"}
        assert (OFFLINE in rules) == bool(elections), log.name
        logs_with += bool(elections)
    assert {log.name for log in fleet.of_daemons if fleet.divergences(log)} != set()
    assert 0 < logs_with < len(fleet.logs)


def test_divergences_equal_those_of_diff_and_agree(fleet: Fleet) -> None:
    rows = fleet.replays(fleet.defect)
    plain = agreed_by(fleet.defect, [log.path for log in fleet.of_stock])
    for log in fleet.of_stock:
        row, (decisions, agreed, rules) = rows[log.id], plain[log.path]
        assert (row["decisions"], row["agreed"]) == (decisions, agreed), log.name
        assert Counter(one["first_rule"] for one in fleet.divergences(log)) == rules, log.name
    of_diff = diverging([log.path for log in fleet.of_daemons], fleet.versions)
    not_made = decisions_not_made([log.path for log in fleet.of_daemons], fleet.versions[1])
    for log in fleet.of_daemons:
        keys = ("first_rule", "what", "kind", "seq")
        found = Counter(tuple(one[key] for key in keys) for one in fleet.divergences(log))
        assert found == of_diff[str(log.path)], log.name
        reordered = sum(one["what"] == "reordered" for one in fleet.divergences(log))
        row, decisions = rows[log.id], decisions_of(log.plain)
        agreed = decisions - not_made[str(log.path)] - reordered
        assert (row["decisions"], row["agreed"]) == (decisions, agreed), log.name


# The analysis -------------------------------------------------------------------------------------


def micros(row: Row) -> int:
    return round(row["seconds"] * 1e6)


def test_failovers_equal_the_expected_ones(fleet: Fleet) -> None:
    count = 0
    for log in fleet.logs:
        done = [one for one in fleet.rows("failovers", log) if one["outcome"] == "done"]
        assert {one["term"]: micros(one) for one in done} == log.plain.failovers, log.name
        steps: Counter[int] = Counter()
        for one in fleet.rows("failover_steps", log):
            steps[one["term"]] += micros(one)
        assert steps == Counter(log.plain.failovers), log.name
        count += len(done)
    of_all = [one for one in fleet.rows("failover_percentiles") if one["by"] == "all"]
    [total] = [one for one in of_all if one["step"] == "total"]
    assert total["failovers"] == count
    assert min(len(log.plain.failovers) for log in fleet.of_daemons) >= 1


def test_leader_changes_and_outages_equal_the_expected_ones(fleet: Fleet) -> None:
    for log in fleet.logs:
        changes = Counter(
            (one["topic"], one["partition"]) for one in fleet.rows("leader_changes", log)
        )
        assert changes == log.plain.leader_changes, log.name
        outages: Counter[tuple[str, int, str]] = Counter()
        for one in fleet.rows("outages", log):
            outages[one["topic"], one["partition"], one["what"]] += micros(one)
        assert +outages == +log.plain.outages, log.name
    for log in fleet.of_daemons:
        assert sum(log.plain.outages.values()) > 0, log.name


def test_reassignments_equal_the_expected_ones(fleet: Fleet) -> None:
    keys = ("topic", "partition", "seq", "ended_seq", "outcome")
    for log in fleet.logs:
        found = {tuple(one[key] for key in keys) for one in fleet.rows("reassignments", log)}
        ended = {(*one[:4], one[4].replace("stuck", "ongoing")) for one in found}
        assert ended == set(log.plain.moves), log.name
    outcomes = Counter(move[-1] for log in fleet.of_daemons for move in log.plain.moves)
    assert outcomes["completed"] == 2
    assert outcomes["cancelled"] == 1


def test_broker_changes_equal_the_expected_ones(fleet: Fleet) -> None:
    keys = ("seq", "broker", "change", "is_found")
    for log in fleet.logs:
        found = {tuple(one[key] for key in keys) for one in fleet.rows("broker_changes", log)}
        plain = {(one.seq, one.broker, one.what, one.is_found) for one in log.plain.brokers.changes}
        assert found == plain, log.name
        flapping = {
            one["broker"]: (one["times_gone"], one["most_in_window"])
            for one in fleet.rows("flapping_brokers", log)
        }
        assert flapping == log.plain.brokers.flapping(300, 3), log.name
    assert {2} in [log.plain.brokers.flapping(300, 3).keys() for log in fleet.of_daemons]


def test_races_equal_the_expected_ones(fleet: Fleet) -> None:
    verdicts: Counter[str] = Counter()
    for log in fleet.logs:
        rows = fleet.rows("races", log)
        found = {
            Race(
                one["broker"] if one["subject"] == "broker" else (one["topic"], one["partition"]),
                *(one[key] for key in ("first_seq", "first_what", "seq", "what", "verdict")),
            )
            for one in rows
        }
        assert found == races_of(log.plain, 1.0), log.name
        assert len(found) == len(rows), log.name
        verdicts.update(one.verdict for one in found)
    assert min(verdicts[one] for one in ("considered", "missed", "undecided")) > 0


def test_zombies_equal_the_expected_ones(fleet: Fleet) -> None:
    for log in fleet.logs:
        found = {(one["seq"], one["how"]) for one in fleet.rows("zombies", log)}
        assert found == log.plain.zombies, log.name
    assert sum(len(log.plain.zombies) for log in fleet.logs) > 0


# The report ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sections(fleet: Fleet) -> list[str]:
    """The expandable sections of the page: incidents and divergences."""
    page = fleet.page.read_text(encoding="utf-8")
    return re.findall(r"<details.*?</details>", page, re.DOTALL)


def test_each_log_with_divergences_has_its_incident(fleet: Fleet, sections: list[str]) -> None:
    count = 0
    for log in fleet.logs:
        divergences = fleet.divergences(log)
        if not divergences:
            continue
        first = min(one["seq"] for one in divergences)
        [section] = [one for one in sections if log.id in one and 'class="divergence"' in one]
        assert f"event {first}" in section
        assert OFFLINE in section
        count += 1
    assert count == sum('class="divergence"' in one for one in sections) > 3


def test_outages_of_the_daemons_have_their_incidents(fleet: Fleet, sections: list[str]) -> None:
    for log in fleet.of_daemons:
        assert any(log.id in one and 'class="incident"' in one for one in sections), log.name
