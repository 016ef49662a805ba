"""`refold health` on logs, and on a real ZooKeeper."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs
from typer.testing import CliRunner, Result

from controller.operator.daemon_status import DaemonStatus, LogStatus, SessionStatus
from eventstore.writer import LogWriter
from replay.cli.main import app
from tests.controller.cli.clusters import client
from tests.controller.cli.daemon_statuses import ACTIVE, IDLE, WAITING, serving
from tests.controller.core.cluster import Cluster
from tests.replay.recorded_log import header, write_log
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run
from tools.lab.zookeeper import ZooKeeperServer


def health(*arguments: str | Path | int) -> Result:
    return CliRunner().invoke(app, ["health", *map(str, arguments)])


def found_by(*arguments: str | Path | int) -> dict[str, Any]:
    found = health(*arguments, "--json")
    assert found.exit_code in (0, 1), found.stderr
    return dict(json.loads(found.stdout))


def test_worst_partition_is_shown_with_its_reason(log: Path) -> None:
    found = health(log)
    assert found.exit_code == 1
    assert "1 offline" in found.stdout
    row = next(line for line in found.stdout.splitlines() if "t-0" in line)
    assert "offline, under-replicated" in row
    assert "3: live, but there is no leader to fetch from" in row
    assert "1: not registered, in the ISR" in row


WORKED_EXAMPLE = """\
30 of 32 partitions well: 1 under-replicated, 2 not-preferred
topic test: 32 partitions, replication factor 2
┏━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━┳━━━━━┳━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ partition ┃ state                           ┃ leader ┃ ISR ┃ replicas ┃ missing replicas  ┃
┡━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━╇━━━━━╇━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ test-0    │ under-replicated, not-preferred │ 1      │ 1   │ 4,1      │ 4: not registered │
│ test-9    │ not-preferred                   │ 2      │ 2,3 │ 3,2      │                   │
"""


def test_lost_replica_and_new_leader_among_32_partitions_are_shown_first(tmp_path: Path) -> None:
    """Replica 4 of partition 0 is lost; partition 9 prefers 3 and is led by 2."""
    cluster = Cluster(1, 2, 3, 4).start()
    replicas = {one: [1, 2] for one in range(32)}
    cluster.create_topic("test", replicas | {0: [4, 1], 9: [3, 2]})
    cluster.stop_broker(3)
    cluster.start_broker(3)
    cluster.set_isr("test", 9, [2, 3])
    cluster.announce_isr(("test", 9))
    cluster.stop_broker(4)
    found = health(
        write_log(tmp_path / "log", cluster), "--topic", "test", "--min-insync-replicas", 1
    )
    assert found.exit_code == 1
    _, *lines = found.stdout.splitlines()
    shown = [one for one in lines if not one.startswith("note: ")]
    first = WORKED_EXAMPLE.splitlines()
    well = [
        f"│ {f'test-{one}':9} │ {'well':31} │ 1      │ 1,2 │ 1,2      │ {'':17} │"
        for one in range(32)
        if one not in (0, 9)
    ]
    assert shown[: len(first)] == first
    assert [one for one in shown[len(first) :] if "│" in one] == well


def moment(log: Path, worst: str | None) -> int:
    """The first event after which the worst partition of the existing ones is in a state."""
    for seq in range(_first_as_controller(log), 200):
        found = found_by(log, "--at", seq)
        if found["total"] and found["worst"] == worst:
            return seq
    raise AssertionError(f"no moment with {worst}")


def _first_as_controller(log: Path) -> int:
    return next(seq for seq in range(1, 200) if health(log, "--at", seq).exit_code != 2)


INCIDENTS = Path(__file__).parents[2] / "incidents"


def test_kraft_controller_is_named_as_the_controller() -> None:
    """The KRaft controller has taken the role in a migration."""
    log = INCIDENTS / "migration-left"
    first, *_ = health(log).stdout.splitlines()
    assert first.endswith("controller: KRaft controller 3000, epoch 11")
    assert found_by(log)["is_kraft"]
    assert not found_by(log, "--at", 42)["is_kraft"]


def test_partitions_with_a_later_controller_epoch_are_not_well_while_they_are_online() -> None:
    """KAFKA-20488: each of them is offline once its leader is lost."""
    log = INCIDENTS / "kraft-epoch-above"
    found = found_by(log, "--at", 47)
    assert (found["worst"], found["counts"]["later-epoch"], found["well"]) == ("later-epoch", 6, 0)
    assert found["problem"].startswith("The controller leaves 6 partitions unchanged (moved-0, ")
    assert "`set /controller_epoch 15`" in found["problem"]
    assert found_by(log, "--at", 53)["partitions"][0]["states"] == ["offline", "later-epoch"]
    assert found_by(log)["problem"] == ""


def test_cluster_that_a_failover_has_not_read_yet_is_not_well() -> None:
    found = health(INCIDENTS / "kraft-epoch-above", "--at", 60)
    assert found.exit_code == 1
    assert found.stdout.startswith("The failover of controller epoch 16 is under way: ")


def test_log_of_a_stopped_daemon_shows_the_last_moment_of_its_last_term() -> None:
    log = INCIDENTS / "kraft-epoch-above"
    found = found_by(log)
    assert found["seq"] == 145
    assert (found["controller"], found["controller_epoch"], found["total"]) == (1000, 16, 6)
    assert found["notes"][0].startswith("the daemon has not been controller since event 146")
    assert "\nnote: the daemon has not been controller since event 146" in health(log).stdout
    assert health(log, "--at", 145).stdout.splitlines()[:2] == health(log).stdout.splitlines()[:2]
    later = health(log, "--at", 146)
    assert later.exit_code == 2
    assert later.stderr == (
        f"refold health: {log}: the daemon is not the controller at event 146, so its log does not "
        "show the cluster: choose an event before 146 with --at\n"
    )


def test_log_of_a_daemon_that_was_never_controller_names_what_to_read_instead(
    tmp_path: Path,
) -> None:
    LogWriter.create(tmp_path / "log", header()).close()
    found = health(tmp_path / "log")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"refold health: {tmp_path / 'log'}: its daemon was never controller, so the log does not "
        "show the cluster: use the log of the active daemon, or --zookeeper\n"
    )


def test_log_of_a_daemon_that_is_not_the_controller_shows_no_state(log: Path) -> None:
    """The daemon knows no partitions, which must not look like a healthy cluster."""
    before = _first_as_controller(log) - 1
    assert before
    found = health(log, "--at", before)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"the daemon is not the controller at event {before}" in found.stderr
    assert f"choose event {before + 1} or a later one with --at" in found.stderr


def test_well_partitions_are_shown_for_a_topic_only(log: Path) -> None:
    at = ("--at", moment(log, None))
    assert found_by(log, *at)["partitions"] == []
    [partition] = found_by(log, *at, "--topic", "t")["partitions"]
    assert partition["states"] == []
    assert health(log, *at).exit_code == 0


@pytest.fixture
def log_of_three_topics(tmp_path: Path) -> Path:
    """Broker 2 has stopped: each topic has lost a replica."""
    cluster = Cluster(1, 2).start()
    for topic in ("a", "b", "c"):
        cluster.create_topic(topic, {0: [1, 2]})
    cluster.stop_broker(2)
    return write_log(tmp_path / "log", cluster)


def test_each_of_several_topics_is_shown(log_of_three_topics: Path) -> None:
    found = found_by(log_of_three_topics, "--topic", "c", "--topic", "a")
    assert [one["topic"] for one in found["topics"]] == ["a", "c"]
    assert [one["topic"] for one in found["partitions"]] == ["a", "c"]
    assert (found["total"], found["counts"]["under-replicated"]) == (2, 2)


def test_unknown_topic_among_several_is_named(log_of_three_topics: Path) -> None:
    found = health(log_of_three_topics, "--topic", "a", "--topic", "nosuch")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "no topic nosuch" in found.stderr


@pytest.mark.parametrize(("fail_on", "status"), [("offline", 1), ("not-preferred", 1)])
def test_exit_status_follows_the_worst_state(log: Path, fail_on: str, status: int) -> None:
    assert health(log, "--fail-on", fail_on).exit_code == status


def test_better_states_than_asked_for_do_not_fail(log: Path) -> None:
    at = ("--at", moment(log, "under-replicated"))
    assert health(log, *at).exit_code == 1
    assert health(log, *at, "--fail-on", "offline").exit_code == 0


def test_unknown_min_insync_replicas_is_noted(log: Path) -> None:
    assert "min.insync.replicas is not known" in health(log).stdout
    known = health(log, "--min-insync-replicas", 2)
    assert "min.insync.replicas is not known" not in known.stdout
    assert "1 under-min-isr" in known.stdout
    assert "does not have the configurations of topics: of 1 topic (t)," in known.stdout


def test_daemons_setting_of_min_insync_replicas_is_used(tmp_path: Path) -> None:
    """The daemon has it from its configuration, or from the brokers at its start."""
    settings = {"min.insync.replicas": "2"}
    cluster = Cluster(1, 2, broker_settings=settings).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    log = write_log(tmp_path / "log", cluster)
    assert found_by(log)["counts"]["under-min-isr"] == 1
    assert found_by(log, "--min-insync-replicas", 1)["counts"]["under-min-isr"] == 0


def test_unknown_topic_is_named(log: Path) -> None:
    found = health(log, "--topic", "nosuch")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "no topic nosuch" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give a log, --zookeeper, --config or --daemon"),
        (["LOG", "--daemon", "/logs"], "give a log, --zookeeper, --config or --daemon"),
        (["LOG", "--config", "/no.properties"], "applies to --zookeeper and --daemon"),
        (["--daemon", "/logs", "--at", "3"], "is a moment of a log"),
        (["--zookeeper", "localhost:no"], "is not HOST:PORT"),
        (["--zookeeper", "localhost:1", "--at", "3"], "is a moment of a log"),
        (["LOG", "--at", "3", "--watch"], "is a fixed moment, omit --watch"),
        (["LOG", "--probe", "--topic", "t"], "use --zookeeper, --config or --daemon instead"),
        (["LOG", "--at", "3", "--probe", "--topic", "t"], "use --zookeeper, --config or --daemon"),
        (["--zookeeper", "a:1", "--probe"], "give exactly one --topic"),
        (["--zookeeper", "a:1", "--probe", "--topic", "t", "--topic", "u"], "exactly one --topic"),
        (["--zookeeper", "a:1", "--zookeeper", "b:1"], "is given 2 times: give it once"),
        (["LOG", "--fail-on", "offline", "--fail-on", "stuck"], "is given 2 times: give it once"),
        (["LOG", "--bootstrap-server", "localhost:1"], "applies to --probe"),
    ],
)
def test_options_that_do_not_fit_are_refused(log: Path, arguments: list[str], says: str) -> None:
    found = health(*(str(log) if one == "LOG" else one for one in arguments))
    assert found.exit_code == 2
    assert says in " ".join(found.stderr.replace("│", " ").split())


# A running daemon ---------------------------------------------------------------------------------


CONNECTED = SessionStatus("0x1f", True, "zk1:2181", 18000, 40, "")


def of_log(status: DaemonStatus, log: Path) -> DaemonStatus:
    return structs.replace(status, log=LogStatus(str(log), 1, 1))


async def asked(
    folder: Path, *statuses: DaemonStatus, options: tuple[str, ...] = ()
) -> tuple[int, str]:
    """The result of the command with daemons that have these statuses."""
    with ExitStack() as stack:
        for one in statuses:
            await stack.enter_context(serving(folder, one)).open()
        return await run("health", "--daemon", str(folder), *options)


async def test_health_of_a_running_daemon_is_that_of_its_log(log: Path, folder: Path) -> None:
    status, output = await asked(folder, of_log(ACTIVE, log))
    assert (status, "1 offline" in output) == (1, True)
    first, *_ = output.splitlines()
    assert first.startswith("process 4711 (active), after event ")


async def test_daemon_with_the_role_is_asked_if_there_are_several(log: Path, folder: Path) -> None:
    _, output = await asked(folder, of_log(IDLE, log.parent), of_log(ACTIVE, log))
    assert output.startswith("process 4711 (active), ")


async def test_daemon_without_zookeeper_is_not_well(log: Path, folder: Path) -> None:
    session = SessionStatus("0x1f", False, "zk1:2181", 18000, 900, "the server closed")
    status, output = await asked(folder, structs.replace(of_log(ACTIVE, log), zookeeper=session))
    assert status == 1
    expected = "The daemon has no connection to ZooKeeper (the server closed) and decides nothing"
    assert output.startswith(expected)


async def test_daemon_whose_session_is_over_shows_the_last_state_of_its_term(folder: Path) -> None:
    """The log shows no cluster after the term; a monitor must not take this for a missing
    daemon."""
    log = INCIDENTS / "kraft-epoch-above"
    session = SessionStatus("", False, "zk1:2181", 18000, 90_000, "refused")
    lost = structs.replace(of_log(IDLE, log), zookeeper=session)
    status, output = await asked(folder, lost)
    first, second, *_ = output.splitlines()
    assert status == 1
    assert first.startswith("The daemon has no connection to ZooKeeper (refused) and decides")
    assert first.endswith("this is the last state that it knew.")
    assert second.startswith("process 4711 (standby), after event 145")
    connected = structs.replace(lost, zookeeper=CONNECTED, is_standby=False)
    status, output = await asked(folder, connected)
    expected = "process 4711 is not controller, runs without --standby, and its log does not show"
    assert (status, expected in output) == (2, True)


async def test_daemon_that_was_never_controller_says_that_it_is_not_connected(
    tmp_path: Path, folder: Path
) -> None:
    LogWriter.create(tmp_path / "log", header()).close()
    status, output = await asked(folder, of_log(IDLE, tmp_path / "log"))
    assert status == 2
    assert "was never controller" in output
    assert output.rstrip().endswith("(no connection to zk1:2181: refused) and decides nothing")


async def test_topics_are_named_whose_configuration_a_daemon_does_not_know(
    log: Path, folder: Path
) -> None:
    """A daemon of an earlier release does not report where ZooKeeper is."""
    _, output = await asked(folder, of_log(ACTIVE, log))
    assert "min.insync.replicas is not known for 1 topic (t): a daemon's log does not" in output
    assert "this daemon does not report its zookeeper.connect: give --config" in output


async def test_missing_daemon_or_log_is_an_error(folder: Path) -> None:
    status, output = await asked(folder)
    assert (status, "no daemon runs with the log folder" in output) == (2, True)
    status, output = await asked(folder, WAITING)
    expected = "process 4711 is waiting for ZooKeeper, and has no log yet"
    assert (status, expected in output) == (2, True)


# A real ZooKeeper --------------------------------------------------------------------------------


async def make_topic(zookeeper: ZooKeeperServer, chroot: str, topic: str = "t") -> None:
    """Brokers 1 and 2; partition 0 is led by 2, and partition 1 has lost broker 3. The topic needs
    two in sync."""
    state = {"controller_epoch": 1, "version": 1, "leader_epoch": 0}
    of_topic = f"/brokers/topics/{topic}"
    znodes = {
        "/brokers/ids/1": {"version": 4, "host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"]},
        "/brokers/ids/2": {"version": 4, "host": "h", "port": 2, "endpoints": ["PLAINTEXT://h:2"]},
        of_topic: {"version": 1, "partitions": {"0": [1, 2], "1": [1, 3]}},
        f"{of_topic}/partitions/0/state": {**state, "leader": 2, "isr": [1, 2]},
        f"{of_topic}/partitions/1/state": {**state, "leader": 1, "isr": [1]},
        f"/config/topics/{topic}": {"version": 1, "config": {"min.insync.replicas": "2"}},
    }
    async with client(zookeeper.connect) as writer:
        for path, content in znodes.items():
            await writer.ensure_path(chroot + path.rpartition("/")[0])
            if not await writer.exists(chroot + path):
                await writer.create(chroot + path, json.dumps(content))


@pytest.mark.lab
def test_cluster_without_refold_is_read_from_zookeeper(zookeeper: ZooKeeperServer) -> None:
    anyio.run(make_topic, zookeeper, "/health")
    found = found_by("--zookeeper", f"{zookeeper.connect}/health")
    assert [(one["partition"], one["states"]) for one in found["partitions"]] == [
        (1, ["under-min-isr", "under-replicated"]),
        (0, ["not-preferred"]),
    ]
    assert found["notes"] == [
        "broker 3: not registered, so the address is not known, and the command cannot see whether "
        "the process still runs; --bootstrap-server HOST:PORT,... probes it"
    ]


@pytest.mark.lab
def test_broker_with_a_given_address_is_probed_and_not_noted(zookeeper: ZooKeeperServer) -> None:
    anyio.run(make_topic, zookeeper, "/probed")
    options = ("--bootstrap-server", f"{HOST}:{free_port()}", "--patience", 0)
    assert found_by("--zookeeper", f"{zookeeper.connect}/probed", *options)["notes"] == []


@pytest.mark.lab
async def test_probe_without_a_broker_reports_the_servers_and_prints_nothing_else(
    zookeeper: ZooKeeperServer,
) -> None:
    """aiokafka would print its own messages."""
    await make_topic(zookeeper, "/unserved")
    connect, servers = f"{zookeeper.connect}/unserved", f"{HOST}:{free_port()}"
    options = ("--topic", "t", "--probe", "--bootstrap-server", servers, "--patience", "0")
    status, output = await run("health", "--zookeeper", connect, *options)
    assert status == 1
    fault = f"probe: not written: no broker could be asked at {servers}"
    assert fault in output
    assert [word for word in ("Unclosed", "aiokafka", "AddressFamily") if word in output] == []


@pytest.mark.lab
def test_only_the_chosen_topics_are_read_from_zookeeper(zookeeper: ZooKeeperServer) -> None:
    anyio.run(make_topic, zookeeper, "/chosen")
    anyio.run(make_topic, zookeeper, "/chosen", "u")
    anyio.run(make_topic, zookeeper, "/chosen", "v")
    found = found_by("--zookeeper", f"{zookeeper.connect}/chosen", "--topic", "t", "--topic", "v")
    assert {one["topic"] for one in found["partitions"]} == {"t", "v"}


@pytest.mark.lab
@pytest.mark.parametrize("is_in_settings", [True, False])
async def test_configurations_of_topics_are_those_of_the_daemons_zookeeper(
    zookeeper: ZooKeeperServer, log: Path, folder: Path, is_in_settings: bool
) -> None:
    """The log has no configuration of t; one of two replicas is in sync, and the topic needs two.
    The daemon reports where ZooKeeper is, or --config says it."""
    chroot = f"/daemon-{is_in_settings}"
    await make_topic(zookeeper, chroot)
    connect = f"{zookeeper.connect}{chroot}"
    config = folder / "server.properties"
    config.write_text(f"zookeeper.connect={connect}\n")
    options = ("--config", str(config)) if is_in_settings else ()
    session = structs.replace(CONNECTED, connect="" if is_in_settings else connect)
    status = structs.replace(of_log(ACTIVE, log), zookeeper=session)
    found, output = await asked(folder, status, options=options)
    assert found == 1
    assert "1 under-min-isr" in output
    assert "note: " not in output


@pytest.mark.lab
def test_topic_that_zookeeper_does_not_have_is_named(zookeeper: ZooKeeperServer) -> None:
    connect = f"{zookeeper.connect}/other"
    anyio.run(make_topic, zookeeper, "/other")
    found = health("--zookeeper", connect, "--topic", "nosuch")
    assert (found.exit_code, found.stdout) == (2, "")
    absent = f"ZooKeeper at {connect}: the cluster has no topic nosuch; topics: t"
    assert absent in found.stderr


@pytest.mark.lab
def test_zookeeper_without_a_cluster_is_named(zookeeper: ZooKeeperServer) -> None:
    found = health("--zookeeper", f"{zookeeper.connect}/nothing")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "no Kafka cluster" in found.stderr
