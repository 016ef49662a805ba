"""Files that leave the machine: with --redact, none of them has a name of the cluster."""

import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.core import znodes
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.api_requests.topics import CreateTopicsReceived, NewTopic
from controller.core.configuration import Authorization
from controller.core.values import Endpoint
from controller.core.znodes.acls import PREFIXED_ACLS
from replay.redaction.topic_names import prefix_stand_ins, topic_stand_ins
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import call, next_request
from tests.controller.core.procedures.admin.test_authorization import acls, allows, by
from tests.replay.recorded_log import write_log
from tests.replay.redaction.test_redacting import refold

MARK = "hunter2"
"""Is in each planted name."""
USER = f"User:CN={MARK}-app\\, O=x"
PREFIX = f"{MARK}.team-"
ALLOWED, FORBIDDEN = f"{PREFIX}orders", f"{MARK}.other"
PREFIXED = f"{PREFIXED_ACLS}/Topic/{PREFIX}"

pytestmark = pytest.mark.timeout(120)


def log_with_names(folder: Path) -> Path:
    """A log with names in all places: topics, ACLs, principals, hosts, racks, configurations."""
    cluster = Cluster(
        1,
        2,
        endpoints=(Endpoint("PLAINTEXT", "PLAINTEXT", f"{MARK}.example.com", 9092),),
        rack=f"{MARK}-rack",
        authorization=Authorization(super_users=(f"User:{MARK}-admin",)),
        broker_settings={"min.insync.replicas": "2", "log.cleanup.policy": f"{MARK}-policy"},
    )
    cluster.put_with_parents(PREFIXED, acls(allows("Create", USER, f"{MARK}.host")))
    cluster.put_with_parents(
        "/config/brokers/<default>", znodes.write_config({"x": f'"{MARK}" value'})
    )
    cluster.start()
    client = ClientIdentity(USER, f"{MARK}.host")
    configs: list[tuple[str, str | None]] = [("retention.ms", "1000"), ("cleanup.policy", MARK)]
    topics = [
        NewTopic(ALLOWED, -1, -1, [(0, (1, 2))], configs[:1]),
        NewTopic(FORBIDDEN, -1, -1, [(0, (1, 2))], []),
        NewTopic(f"{ALLOWED}-2", -1, -1, [(0, (1, 2))], configs),
    ]
    request = CreateTopicsReceived(next_request(cluster), 5, 1000, False, topics)
    errors = [one.error for one in call(cluster, by(client, request)).topics]
    assert errors == [0, 29, 40], "created, TOPIC_AUTHORIZATION_FAILED, INVALID_CONFIG"
    return write_log(folder, cluster)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return log_with_names(tmp_path_factory.mktemp("recorded") / f"{MARK}-log")


def contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """All files at a path, also those in archives."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and file.name.endswith(".tar.xz"):
            with tarfile.open(file) as archive:
                for member in archive:
                    content = archive.extractfile(member)
                    yield f"{file}:{member.name}", content.read() if content is not None else b""
        elif file.is_file():
            yield str(file), file.read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        "log export LOG --out OUT",
        "log copy LOG OUT",
        "new-incident LOG --name redacted --into OUT",
        "report LOG --out OUT",
        "report LOG --against LOG --out OUT",
        "report LOG --format markdown --out OUT",
        "report LOG --format perfetto --out OUT",
        pytest.param("fleet ingest LOG --master local[1] --out OUT", marks=pytest.mark.long),
    ],
)
def test_file_has_the_names_only_without_redact(tmp_path: Path, log: Path, command: str) -> None:
    for option, has_names in (("--redact", False), ("", True)):
        out = tmp_path / f"out{option}"
        arguments = [*command.split(), *option.split()]
        result = refold(*({"LOG": log, "OUT": out}.get(one, one) for one in arguments))
        assert result.exit_code == 0, result.output
        found = {name for name, content in contents(out) if MARK.encode() in content}
        assert bool(found) is has_names, found


@pytest.mark.sampled
@pytest.mark.parametrize(
    "command",
    [
        "log export LOG --out OUT",
        "log export LOG --format parquet --out OUT",
        "log copy LOG OUT",
        "new-incident LOG --name incident --into OUT",
        "report LOG --out OUT",
        pytest.param("fleet ingest LOG --master local[1] --out OUT", marks=pytest.mark.long),
    ],
)
def test_files_with_the_content_of_a_log_are_for_this_user_only(
    tmp_path: Path, log: Path, command: str
) -> None:
    out = tmp_path / "out"
    arguments = [str({"LOG": log, "OUT": out}.get(one, one)) for one in command.split()]
    # In a new process: Spark's workers keep the umask with which the first session has started.
    program = [sys.executable, "-m", "replay.cli.main", *arguments]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    modes = {one: stat.S_IMODE(one.stat().st_mode) for one in (out, *out.rglob("*"))}
    # Below a private folder, other files are private, too.
    assert not [one for one, mode in modes.items() if mode & 0o077 and one.parent == tmp_path]
    if command.startswith("fleet"):
        assert not [one for one, mode in modes.items() if mode & 0o077]


def test_redacted_copy_replays_and_keeps_what_acls_decide(tmp_path: Path, log: Path) -> None:
    assert refold("log", "copy", log, tmp_path / "copy", "--redact").exit_code == 0
    assert refold("log", "verify", tmp_path / "copy").exit_code == 0
    assert "agrees" in refold("replay", tmp_path / "copy").output
    answers = refold("log", "export", tmp_path / "copy").output
    assert '"error":29' in answers
    assert "retention.ms" in answers
    assert '"1000"' in answers, "decisions depend on it, and it is no secret"


def test_futures_have_names_that_cannot_be_redacted(tmp_path: Path, log: Path) -> None:
    result = refold("report", log, "--redact", "--futures", tmp_path / "f", "-o", tmp_path / "o")
    assert result.exit_code == 2
    assert "refold log copy --redact" in result.output


NAMES = ["orders", "orders.eu", "orders_us", "order", "p-1", "p-10", "q"]


@pytest.mark.parametrize("prefix", ["orders", "orders.", "order", "o", "p-", "p-1", "q", "zz", "-"])
def test_replaced_prefix_begins_the_names_that_it_began(prefix: str) -> None:
    others = topic_stand_ins(NAMES, [], [prefix])
    [other] = prefix_stand_ins([prefix], NAMES, []).values()
    begun = {one for one in NAMES if one.startswith(prefix)}
    assert {one for one in NAMES if others[one].startswith(other)} == begun
    assert [others[one] for one in sorted(NAMES)] == sorted(others.values())
