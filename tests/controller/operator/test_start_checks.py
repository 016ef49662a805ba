from pathlib import Path

import pytest
from msgspec import structs

from controller.core.znodes.acls import Acl
from controller.operator.start_checks import check_start, may_be_last_run
from controller.operator.status import ClusterStatus, ControllerStatus, ZooKeeperStatus
from tests.controller.operator.settings import settings


def status(
    *,
    chroot_exists: bool = True,
    is_kafka: bool = True,
    cluster_id: str | None = "c1",
    registered: tuple[int, ...] = (),
    controller: ControllerStatus | None = None,
    migrating: str = "",
    registration_versions: dict[int, int] | None = None,
    dynamic_keys: tuple[str, ...] = (),
) -> ZooKeeperStatus:
    return ZooKeeperStatus(
        cluster=ClusterStatus(
            chroot_exists=chroot_exists,
            is_kafka=is_kafka,
            cluster_id=cluster_id,
            registered=registered,
            controller=controller,
            migrating=migrating,
            registration_versions=registration_versions or {},
            dynamic_keys=dynamic_keys,
        )
    )


def held_by(broker_id: int | None) -> ControllerStatus:
    return ControllerStatus(broker_id=broker_id, session_id=0x1F)


def errors(found: ZooKeeperStatus) -> list[str]:
    return [one.line for one in check_start(settings(), found) if one.level == "error"]


def test_all_start_checks_pass() -> None:
    assert errors(status()) == []
    assert errors(status(registered=(1,), controller=held_by(1))) == []
    # Unreadable content of /controller is no controller, as in Kafka. The session of its znode may
    # be replaced.
    assert errors(status(controller=held_by(None))) == []
    assert errors(status(dynamic_keys=("log.cleaner.threads",))) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ZooKeeperStatus(fault="refused"), "cannot connect to ZooKeeper: refused"),
        (status(chroot_exists=False), "/kafka does not exist"),
        (status(is_kafka=False), "no readable /brokers/ids"),
        (status(cluster_id=None), "no readable /cluster/id"),
        (status(registered=(1000,)), "registered in /brokers/ids/1000"),
        (status(controller=held_by(1000)), "another daemon holds /controller"),
        (
            status(controller=ControllerStatus(broker_id=1)),
            "/controller is persistent",
        ),
        (
            status(controller=ControllerStatus(broker_id=1, kraft_epoch=5)),
            "kraftControllerEpoch 5",
        ),
        (status(migrating="KRaft controller 3000 migrates"), "KRaft controller 3000 migrates"),
        (
            status(
                dynamic_keys=("listener.name.secure.ssl.keystore.password", "log.cleaner.threads")
            ),
            "/config/brokers/1000 has listener.name.secure.ssl.keystore.password: the daemon reads",
        ),
    ],
)
def test_failed_start_check_refuses_the_start(found: ZooKeeperStatus, expected: str) -> None:
    (error,) = errors(found)
    assert expected in error


def test_only_the_session_of_the_last_run_is_waited_for() -> None:
    own, other = held_by(1000), held_by(1)
    assert may_be_last_run(settings(), status(controller=own))
    assert not may_be_last_run(settings(), status(controller=other))
    assert not may_be_last_run(settings(), status(controller=own, registered=(1000,)))
    assert not may_be_last_run(settings(), ZooKeeperStatus(fault="refused"))


@pytest.mark.parametrize(
    ("version", "registered", "level", "expected"),
    [
        ("3.9", {1: 4, 2: 4}, "error", "version below 2.7: 1, 2; the daemon has 3.9-IV0"),
        ("2.7-IV0", {1: 4}, "error", "version below 2.7: 1; the daemon has 2.7-IV0"),
        ("2.6", {1: 5, 2: 6}, "error", "version 2.7 or later: 1, 2; the daemon has 2.6-IV0"),
        ("3.9", {1: 5, 2: 4}, "warning", "version below 2.7: 2; the daemon has 3.9-IV0"),
        ("2.6", {1: 5, 2: 4}, "warning", "version 2.7 or later: 1; the daemon has 2.6-IV0"),
        ("2.7-IV0", {1: 5, 2: 5}, "ok", "no registration contradicts 2.7-IV0"),
        ("2.6", {1: 4, 2: 2}, "ok", "no registration contradicts 2.6-IV0"),
    ],
    ids=["all old", "old", "all new", "one old", "one new", "new", "fits old"],
)
def test_protocol_version_that_contradicts_registrations_is_reported(
    version: str, registered: dict[int, int], level: str, expected: str
) -> None:
    given = settings({"inter.broker.protocol.version": version})
    found = check_start(given, status(registration_versions=registered))
    (protocol,) = [one for one in found if one.check == "protocol"]
    assert protocol.level == level
    assert expected in protocol.text
    assert protocol.advice


def test_without_brokers_the_protocol_version_is_not_checked() -> None:
    assert "protocol" not in [one.check for one in check_start(settings(), status())]


SASL = """
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=INTERNAL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.internal.plain.sasl.jaas.config=\
  org.apache.kafka.common.security.plain.PlainLoginModule required username="kafka" password="x";
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
"""


@pytest.mark.parametrize(
    ("more", "acls", "is_refused"),
    [
        ("super.users=User:admin", (), True),
        ("", (Acl("User:alice", "Allow", "All", "*"),), True),
        ("", (Acl("User:kafka", "Allow", "Alter", "*"),), True),
        ("", (Acl("User:kafka", "Deny", "All", "*"),), True),
        ("allow.everyone.if.no.acl.found=true", (Acl("User:a", "Allow", "All", "*"),), True),
        ("allow.everyone.if.no.acl.found=true", (), False),
        ("super.users=User:admin;User:kafka", (), False),
        ("", (Acl("User:kafka", "Allow", "ClusterAction", "10.0.0.1"),), False),
        ("", (Acl("User:*", "Allow", "All", "*"),), False),
        ("", None, False),
    ],
)
def test_login_that_brokers_would_refuse_is_reported(
    tmp_path: Path, more: str, acls: tuple[Acl, ...] | None, is_refused: bool
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{SASL}{more}\n")
    found = status()
    assert found.cluster is not None
    cluster = structs.replace(found.cluster, cluster_acls=acls)
    results = check_start(settings(config=file), structs.replace(found, cluster=cluster))
    lines = [one.line for one in results if one.level == "error"]
    assert len(lines) == is_refused
    if is_refused:
        assert lines[0].startswith("User:kafka, the login to brokers, is not in super.users, and")
        assert lines[0].endswith(
            "add User:kafka to super.users, here and in the files of the brokers"
        )
