"""A redacted log has the same decisions, and none of the names."""

import json
import re
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    ScramDeletion,
    ScramUpsertion,
)
from controller.core.configuration import Configuration
from controller.core.values import Endpoint
from replay.cli.main import app
from replay.incidents.incident_folder import incident_log
from replay.redaction import fields, places
from replay.redaction.names import Names, StandIns
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.world.simulation import Simulation
from tests.replay.diff.versions import INCIDENTS, ROOT
from tests.replay.recorded_log import incident, write_log

RECORDINGS = ROOT / "tests" / "recordings"
pytestmark = pytest.mark.timeout(120)


def refold(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def redacted(log: Path, folder: Path) -> tuple[Path, dict[str, dict[str, str]], str]:
    """The redacted log, the replaced names, and the redacted log as text."""
    out, names = folder / "log.jsonl", folder / "names.json"
    result = refold("log", "export", log, "--redact", "--names", names, "--out", out)
    assert result.exit_code == 0, result.output
    assert refold("log", "import", out, folder / "other").exit_code == 0
    return folder / "other", json.loads(names.read_text()), out.read_text()


@pytest.mark.parametrize("name", ["broker-crash", "unclean-election", "topics"])
def test_redacted_incident_replays_and_has_none_of_the_names(tmp_path: Path, name: str) -> None:
    with incident_log(INCIDENTS / name) as log:
        other, names, text = redacted(log, tmp_path)
        before = refold("replay", log).output.splitlines()[0].partition(": ")[2]
    assert set(names["topic"]) >= {"moved", "orders"}
    for one in ("moved", "orders", "127.0.0.1", "localhost"):
        assert one not in text
        for file in other.iterdir():
            assert one.encode() not in file.read_bytes()
    replayed = refold("replay", other)
    assert replayed.exit_code == 0, replayed.output
    if before.startswith("agrees"):
        assert replayed.output.splitlines()[0].partition(": ")[2] == before


@pytest.mark.parametrize("name", ["cancellation-failover", "extra-conflict", "legacy-request"])
def test_incident_with_reassignment_records_replays_without_its_topics(
    tmp_path: Path, name: str
) -> None:
    with incident_log(INCIDENTS / name) as log:
        other, names, text = redacted(log, tmp_path)
    assert set(names["topic"]) >= {"moved", "orders"}
    assert re.findall(r"\b(?:moved|orders)\b", text) == []
    assert refold("replay", other).exit_code == 0


def test_users_of_scram_credentials_are_replaced() -> None:
    upsertion = ScramUpsertion("alice", 1, 4096, "digest")
    request = AlterUserScramCredentialsReceived(1, 0, [ScramDeletion("bob", 1)], [upsertion])
    found = Names()
    fields.value(found, request)
    redacted_request = fields.value(StandIns(found), request)
    users = [one.user for one in (*redacted_request.deletions, *redacted_request.upsertions)]
    assert sorted(users) == ["name-1", "name-2"]


def redacted_znode(path: str, data: bytes) -> bytes:
    found = Names()
    places.path(found, path)
    places.znode(found, path, data)
    changed = places.znode(StandIns(found), path, data)
    assert changed is not None
    return changed


@pytest.mark.parametrize(
    ("path", "data", "gone", "kept"),
    [
        (
            "/config/users/alice",
            b'{"version":1,"config":{"SCRAM-SHA-512":"salt=c2FsdA==,iterations=4096",'
            b'"producer_byte_rate":"1024"}}',
            (b"c2FsdA",),
            (b"SCRAM-SHA-512", b'"1024"'),
        ),
        (
            "/config/brokers/1",
            b'{"config":{"ssl.key.password":"encrypted:\\"x\\"", "log.cleaner.threads":"2"}}',
            (b"encrypted",),
            (b"ssl.key.password", b'"2"'),
        ),
        (
            "/delegation_token/tokens/id",
            b'{"version":1,"owner":"User:alice","hmac":"c2VjcmV0","maxTimestamp":"5"}',
            (b"alice", b"c2VjcmV0"),
            (b'"5"',),
        ),
        ("/kafka-acl-changes/acl_changes_01", b"Topic:orders", (b"orders",), (b"Topic:",)),
        (
            "/kafka-acl-extended-changes/acl_changes_01",
            b'{"resourceType":"TOPIC","name":"team-","patternType":"PREFIXED","version":1}',
            (b"team",),
            (b"PREFIXED", b"TOPIC"),
        ),
        (
            "/kafka-acl/Cluster/kafka-cluster",
            b'{"version":1,"acls":[{"principal":"User:CN=a\\\\,b","host":"h1","operation":"All"}]}',
            (b"CN=", b"h1"),
            (b"User:", b"All"),
        ),
    ],
)
def test_secrets_and_names_of_a_znode_are_replaced(
    path: str, data: bytes, gone: tuple[bytes, ...], kept: tuple[bytes, ...]
) -> None:
    after = redacted_znode(path, data)
    assert [one for one in gone if one in after] == []
    assert [one for one in kept if one not in after] == []


def test_names_are_replaced_in_all_places(tmp_path: Path) -> None:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "secret-host", 9092)
    configuration = Configuration(
        broker_id=1000,
        inter_broker_protocol_version="3.9",
        endpoints=(endpoint,),
        rack="secret-rack",
    )
    simulation = Simulation(configuration)
    for broker in (1, 2):
        simulation.start_broker(broker)
    simulation.connect()
    simulation.put("/brokers/topics/secret.topic", b'{"version":1,"partitions":{"0":[1,2]}}')
    change = b'{"version":2,"entity_path":"topics/secret.topic"}'
    simulation.put("/config/changes/config_change_0000000001", change)
    reassignment = (
        b'{"version":1,"partitions":[{"topic":"secret.topic","partition":0,"replicas":[2]}]}'
    )
    simulation.put("/admin/reassign_partitions", reassignment)
    simulation.stop_broker(1)
    _, names, text = redacted(write_log(tmp_path / "log", simulation), tmp_path)
    assert "secret" not in text
    assert names["topic"].keys() == {"secret.topic"}
    assert names["host"]["secret-host"] in text
    assert names["rack"] == {"secret-rack": "rack-1"}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["session_connected", "created", "retention.ms", "leader_epoch", "isr_change", "admin"]
)
def test_topic_that_is_named_as_a_word_of_every_log_is_replaced(tmp_path: Path, name: str) -> None:
    simulation = Simulation(Configuration(broker_id=1000, inter_broker_protocol_version="3.9"))
    for broker in (1, 2):
        simulation.start_broker(broker)
    simulation.connect()
    simulation.put(f"/brokers/topics/{name}", b'{"version":1,"partitions":{"0":[1,2]}}')
    simulation.put("/brokers/topics/other", b'{"version":1,"partitions":{"0":[1,2]}}')
    simulation.put("/config/topics/other", b'{"version":1,"config":{"retention.ms":"1"}}')
    change = b'{"version":2,"entity_path":"topics/other"}'
    simulation.put("/config/changes/config_change_0000000001", change)
    log, names, text = redacted(write_log(tmp_path / "log", simulation), tmp_path)
    assert names["topic"].keys() == {name, "other"}
    assert f"/topics/{name}" not in text
    assert names["topic"][name] in text
    assert refold("replay", log).exit_code == 0


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["topics-1", "reassign-5"])
def test_redacted_imported_log_agrees_as_before(tmp_path: Path, name: str) -> None:
    import_source(RECORDINGS / f"{name}.tar.xz", tmp_path / "log", Selection())
    other, names, text = redacted(tmp_path / "log", tmp_path)
    before, after = refold("agree", tmp_path / "log"), refold("agree", other)
    assert before.output.splitlines()[:-1] == after.output.splitlines()[:-1]
    assert before.exit_code == after.exit_code
    for topic, stand_in in names["topic"].items():
        if topic != stand_in:
            assert f'"{topic}"' not in text
            assert f"/{topic}/" not in text
    assert "127.0.0.1" not in text


def test_log_that_does_not_replay_is_not_redacted(tmp_path: Path) -> None:
    other = Configuration(broker_id=1000, inter_broker_protocol_version="3.9", take_over=True)
    log = write_log(tmp_path / "log", incident(), configuration=other)
    result = refold("log", "export", log, "--redact", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "Only a log that replays can be redacted" in result.stderr
    assert not (tmp_path / "out").exists()


def test_existing_names_file_is_not_overwritten(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident())
    names = tmp_path / "names.json"
    names.write_text("mine")
    result = refold("log", "export", log, "--redact", "--names", names, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert names.read_text() == "mine"
    assert refold("log", "export", log, "--names", tmp_path / "n").exit_code == 2
