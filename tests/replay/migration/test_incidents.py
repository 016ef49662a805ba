"""`refold check --migration` on the incidents of migrations that were rolled back."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from eventstore.filters import EventFilter
from replay.cli.main import app
from replay.inspect.at import projection_at
from replay.logs.open_log import open_log
from replay.migration.evaluate import findings_of
from replay.migration.findings import MigratingCluster, MigrationFinding

INCIDENTS = Path(__file__).parents[2] / "incidents"


def errors(incident: str, at: int | str) -> dict[str, Any]:
    """The errors at a moment of an incident, by check."""
    done = CliRunner().invoke(
        app, ["check", "--migration", str(INCIDENTS / incident), "--at", str(at), "--json"]
    )
    found = json.loads(done.stdout)["findings"]
    return {one["check"]: one for one in found if one["level"] == "error"}


def changes_of(incident: str, path: str) -> list[tuple[int, bool]]:
    """The events after which a znode exists, and does not exist any more."""
    changes: list[tuple[int, bool]] = []
    with open_log(INCIDENTS / incident) as log:
        last = log.reader.header.first_seq - 1
        projection = projection_at(log, last)
        for record in log.reader.events(EventFilter(first_seq=last + 1)):
            projection.apply(record)
            exists = projection.view is not None and projection.view.find(path) is not None
            if exists != (changes[-1][1] if changes else False):
                changes.append((record.seq, exists))
    return changes


def errors_by_moment(incident: str) -> list[dict[str, MigrationFinding]]:
    """The errors after each event of the log of a daemon while it is controller, by check."""
    found = []
    with open_log(INCIDENTS / incident) as log:
        last = log.reader.header.first_seq - 1
        projection = projection_at(log, last)
        for record in log.reader.events(EventFilter(first_seq=last + 1)):
            projection.apply(record)
            subject = MigratingCluster(projection.cluster(""), None)
            if subject.epoch is not None:
                findings = findings_of(subject)
                found.append({one.check: one for one in findings if one.level == "error"})
    return found


def test_KAFKA_20488_partitions_are_named_until_the_epoch_is_raised() -> None:
    moments = errors_by_moment("kraft-epoch-above")
    stuck = [one for one in moments if {"partition epochs", "offline partitions"} <= set(one)]
    assert stuck[0]["offline partitions"].where == ("orders-2",)
    assert "orders-2" in stuck[0]["partition epochs"].where
    assert "`set /controller_epoch " in stuck[0]["partition epochs"].advice
    # The operator has raised the epoch and deleted /controller, and broker 3 has returned.
    assert moments[-1] == {}


def test_strimzi_11262_migration_znode_is_found_before_it_deletes_a_topic() -> None:
    [created, deleted] = changes_of("migration-left", "/brokers/topics/later")
    assert (created[1], deleted[1]) == (True, False)
    [led, _] = changes_of("migration-left", "/brokers/topics/later/partitions/0/state")
    found = errors("migration-left", led[0])
    assert set(found) == {"migration"}
    assert "left of an earlier migration (KRaft controller 3000" in found["migration"]["text"]
    with open_log(INCIDENTS / "migration-left") as log:
        view = projection_at(log, deleted[0]).view
        holder = view.find("/controller") if view is not None else None
    assert holder is not None
    assert json.loads(holder.data)["kraftControllerEpoch"] > 0, "the KRaft controller deleted it"


def test_KAFKA_19480_empty_migration_znode_is_found_until_it_is_deleted() -> None:
    empty, deleted, copied = changes_of("migration-malformed", "/migration")
    assert (
        "/migration is empty: a KRaft controller hangs on it"
        in errors("migration-malformed", empty[0])["migration"]["text"]
    )
    assert "migration" not in errors("migration-malformed", deleted[0])
    assert copied[1]
    with open_log(INCIDENTS / "migration-malformed") as log:
        last = log.reader.last_seq
    assert (
        "KRaft controller 3000 has the role"
        in (errors("migration-malformed", last)["controller"]["text"])
    )
