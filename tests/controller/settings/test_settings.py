from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.core.topic_configs import OF_BROKER, OF_KAFKA
from controller.core.values import Endpoint
from controller.settings.errors import SettingsError
from controller.settings.parsing import SOCKET_PATH_BYTES_MAX
from controller.settings.settings import LoadedSettings, load, zookeeper_of
from controller.settings.sources import RawSetting, from_file
from controller.zookeeper.servers import ServerAddress

NEEDED = {
    "REFOLD_ZOOKEEPER_CONNECT": "zk1:2181/kafka",
    "REFOLD_BROKER_ID": "1000",
    "REFOLD_LOG_DIR": "/logs",
}


def loaded(
    tmp_path: Path,
    content: str = "",
    *,
    name: str = "server.properties",
    environment: Mapping[str, str] = NEEDED,
    flags: Mapping[str, str] | None = None,
) -> LoadedSettings:
    file = tmp_path / name
    file.write_text(content)
    given = [RawSetting(key, text, f"--{key}") for key, text in (flags or {}).items()]
    return load(given, environment, file)


def problems(tmp_path: Path, content: str, **more: object) -> str:
    with pytest.raises(SettingsError) as raised:
        loaded(tmp_path, content, **more)  # type: ignore[arg-type]
    return str(raised.value)


def test_precedence_is_flags_environment_file_defaults(tmp_path: Path) -> None:
    content = (
        "zookeeper.session.timeout.ms=3000\nbroker.rack=c\nunclean.leader.election.enable=true"
    )
    environment = {
        **NEEDED,
        "REFOLD_ZOOKEEPER_SESSION_TIMEOUT_MS": "4000",
        "REFOLD_BROKER_RACK": "b",
    }
    flags = {"zookeeper.session.timeout.ms": "5000"}
    settings, _ = loaded(tmp_path, content, environment=environment, flags=flags)
    assert settings.session_timeout_ms == 5000
    assert settings.rack == "b"
    assert settings.unclean_leader_election_enable is True
    assert settings.rules == "refold"


def test_last_value_of_a_repeated_key_is_used(tmp_path: Path) -> None:
    settings, _ = loaded(tmp_path, "broker.rack=a\nbroker.rack=b")
    assert settings.rack == "b"
    settings, _ = loaded(tmp_path, "broker.rack=a\nbroker.rack=")
    assert settings.rack is None


def test_server_properties_of_a_broker_is_read(tmp_path: Path) -> None:
    content = """
        # A broker's file.
        broker.id=1
        zookeeper.connect = zk1:2181,\\
            zk2:2182/kafka
        inter.broker.protocol.version=2.6
        listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT
        listeners=INTERNAL://h1:9092,CLIENTS://h1:9093
        inter.broker.listener.name=INTERNAL
        log.dirs=/data
        num.io.threads=8
        listener.name.clients.sasl.enabled.mechanisms=SCRAM-SHA-256
        delete.topic.enable=true
        broker.rack=
    """
    environment = {"REFOLD_BROKER_ID": "1000", "REFOLD_LOG_DIR": "/logs"}
    settings, warnings = loaded(tmp_path, content, environment=environment)
    assert warnings == ()
    assert settings.zookeeper.servers == (ServerAddress("zk1", 2181), ServerAddress("zk2", 2182))
    assert settings.zookeeper.chroot == "/kafka"
    assert settings.log_dir == Path("/logs")
    assert settings.rack is None
    assert settings.listeners[1] == Endpoint("CLIENTS", "SASL_PLAINTEXT", "h1", 9093)
    configuration = settings.configuration()
    assert configuration.broker_id == 1000
    assert configuration.inter_broker_protocol_version == "2.6-IV0"
    assert configuration.controller_listener == "INTERNAL"


def test_key_of_the_daemon_has_priority_over_the_brokers(tmp_path: Path) -> None:
    content = "refold.broker.id=1000\nbroker.id=1\nzookeeper.connect=zk\nrefold.log.dir=/logs"
    assert loaded(tmp_path, content, environment={})[0].broker_id == 1000


def test_listeners_are_not_advertised_as_those_of_a_broker(tmp_path: Path) -> None:
    content = "listeners=PLAINTEXT://h1:9092\nadvertised.listeners=PLAINTEXT://public:9092"
    own = (Endpoint("PLAINTEXT", "PLAINTEXT", "h9", 9190),)
    settings, _ = loaded(tmp_path, content, flags={"listeners": "PLAINTEXT://h9:9190"})
    assert settings.listeners == settings.advertised_listeners == own


PLAIN_MAP = 'listener.security.protocol.map = "PLAINTEXT:PLAINTEXT,SSL:PLAINTEXT"'


@pytest.mark.parametrize(
    "content",
    [
        'zookeeper.connect = "zk1:2181"\nrefold.broker.id = 1000\nrefold.log.dir = "/logs"\n'
        f'refold.take.over = true\nlisteners = ["PLAINTEXT://h:1", "SSL://h:2"]\n{PLAIN_MAP}',
        f'{PLAIN_MAP}\n"zookeeper.connect" = "zk1:2181"\nlisteners = "PLAINTEXT://h:1,SSL://h:2"\n'
        '[refold]\nbroker.id = 1000\nlog.dir = "/logs"\n[refold.take]\nover = true',
    ],
)
def test_dotted_keys_and_tables_of_toml_are_equivalent(tmp_path: Path, content: str) -> None:
    settings, warnings = loaded(tmp_path, content, name="refold.toml", environment={})
    assert warnings == ()
    assert (settings.broker_id, settings.take_over) == (1000, True)
    assert [one.listener for one in settings.listeners] == ["PLAINTEXT", "SSL"]


@pytest.mark.parametrize("variable", ["INVOCATION_ID", "KUBERNETES_SERVICE_HOST"])
def test_service_waits_for_zookeeper_unless_it_is_configured_not_to(
    tmp_path: Path, variable: str
) -> None:
    service = {**NEEDED, variable: "x"}
    assert not loaded(tmp_path).settings.waits_for_zookeeper
    assert loaded(tmp_path, environment=service).settings.waits_for_zookeeper
    configured = loaded(tmp_path, "refold.wait.for.zookeeper=false", environment=service)
    assert not configured.settings.waits_for_zookeeper


def test_unknown_keys_are_reported_with_a_similar_key(tmp_path: Path) -> None:
    content = "zookeeper.session.timout.ms=1"
    _, warnings = loaded(tmp_path, content)
    assert "server.properties:1" in warnings[0]
    assert "did you mean zookeeper.session.timeout.ms?" in warnings[0]
    assert "did you mean" in problems(tmp_path, content, name="refold.toml")


def test_unknown_variable_is_reported_with_a_similar_one(tmp_path: Path) -> None:
    _, warnings = loaded(tmp_path, environment={**NEEDED, "REFOLD_BROKERS_ID": "1", "REFOLD_X": ""})
    assert warnings == (
        "the environment variable REFOLD_BROKERS_ID is unknown; did you mean REFOLD_BROKER_ID?",
    )


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("zookeeper.session.timeout.ms=soon", "a whole number from 1000"),
        ("inter.broker.protocol.version=4.0", "a version from 2.4 to 3.9"),
        ("unclean.leader.election.enable=yes", "true or false"),
        ("refold.rules=mine", "refold or kafka"),
        ("refold.log.retention.bytes=0", "-1 for no limit"),
        ("listeners=PLAINTEXT:9092", "LISTENER://host:port"),
        ("listeners=PLAINTEXT://h:99999", "a port up to 65535"),
        ("listeners=PLAINTEXT://h..b:9092", "but 'h..b' is not"),
        ("listener.security.protocol.map=A:B", "LISTENER:PROTOCOL"),
        ("security.inter.broker.protocol=TLS", "PLAINTEXT or SSL"),
    ],
)
def test_error_of_a_value_names_key_value_line_and_what_is_allowed(
    tmp_path: Path, line: str, reported: str
) -> None:
    text = problems(tmp_path, f"# first\n{line}\n")
    assert line in text
    assert "server.properties:2" in text
    assert reported in text


def test_invalid_flag_and_variable_are_reported(tmp_path: Path) -> None:
    environment = {**NEEDED, "REFOLD_BROKER_ID": "-1"}
    text = problems(tmp_path, "", environment=environment, flags={"zookeeper.connect": "zk:port"})
    assert "broker.id=-1 (REFOLD_BROKER_ID): must be a whole number from 0" in text
    assert "zookeeper.connect=zk:port (--zookeeper.connect): must be HOST:PORT" in text
    text = problems(tmp_path, "", flags={"zookeeper.connect": f"zk:1,{'z' * 64}:1"})
    assert "(--zookeeper.connect): must be a host name with" in text


@pytest.mark.parametrize("folder", ["~nobody-has-this-name/logs", "a\0b"])
def test_invalid_log_directory_is_reported(tmp_path: Path, folder: str) -> None:
    text = problems(tmp_path, "", flags={"refold.log.dir": folder})
    assert "(--refold.log.dir): must be a folder" in text


def test_missing_setting_is_reported_with_its_sources(tmp_path: Path) -> None:
    text = problems(tmp_path, "", environment={})
    assert "zookeeper.connect is not set: use --zookeeper, REFOLD_ZOOKEEPER_CONNECT" in text
    assert text.count("is not set") == 3


@pytest.mark.parametrize(
    "line",
    [
        "create.topic.policy.class.name=org.example.Policy",
        "alter.config.policy.class.name=org.example.Policy",
        "process.roles=broker",
        "authorizer.class.name=org.example.Authorizer",
        "client.quota.callback.class=com.example.Quotas",
        "zookeeper.metadata.migration.enable=true",
    ],
)
def test_plugins_and_kraft_are_refused_by_name(tmp_path: Path, line: str) -> None:
    assert f"{line} " in problems(tmp_path, line)


def test_refused_keys_may_be_off(tmp_path: Path) -> None:
    off = loaded(tmp_path, "zookeeper.metadata.migration.enable=false\nauthorizer.class.name=")
    assert off == loaded(tmp_path)


@pytest.mark.parametrize("name", ["server.properties", "refold.toml"])
@pytest.mark.parametrize(
    "key",
    [
        "create.topic.policy.class.name",
        "alter.config.policy.class.name",
        "client.quota.callback.class",
    ],
)
def test_class_without_a_name_is_refused_as_by_kafka(tmp_path: Path, key: str, name: str) -> None:
    line = f'{key} = ""' if name.endswith(".toml") else f"{key}="
    reported = problems(tmp_path, line, name=name)
    assert f"{key}= ({tmp_path / name}" in reported
    assert "a broker would not start with it" in reported


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ("inter.broker.listener.name=A\nsecurity.inter.broker.protocol=SSL", "both set"),
        ("control.plane.listener.name=PLAINTEXT", "must not be the inter-broker listener"),
        ("listeners=INTERNAL://h:1", "does not contain the listener INTERNAL"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:1", "clients cannot connect to 0.0.0.0"),
        ("listeners=PLAINTEXT://0.0.0.0:1", "clients cannot connect to 0.0.0.0"),
        ("listeners=PLAINTEXT://[::]:1", "clients cannot connect to ::"),
        ("listeners=PLAINTEXT://h:0", "the port of the listener PLAINTEXT is 0"),
    ],
)
def test_contradicting_settings_are_reported(tmp_path: Path, content: str, reported: str) -> None:
    assert reported in problems(tmp_path, content)


@pytest.mark.parametrize(
    ("name", "content", "reported"),
    [
        ("refold.toml", "a = = 1", "line 1"),
        ("refold.toml", "refold.rules = 1.5", "refold.rules must be text"),
        ("server.properties", "a=\\uZZZZ", "cannot be read"),
    ],
)
def test_unreadable_file_is_reported(
    tmp_path: Path, name: str, content: str, reported: str
) -> None:
    text = problems(tmp_path, content, name=name)
    assert name in text
    assert reported in text


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml: cannot be read"):
        load([], NEEDED, tmp_path / "absent.toml")


def test_brokers_file_is_read_in_kafkas_encoding(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("# Größe\nzookeeper.connect=zk1:2181\nbroker.rack=süd\n".encode("latin-1"))
    given = {one.key: one.text for one in from_file(file)}
    assert given == {"zookeeper.connect": "zk1:2181", "broker.rack": "süd"}


def test_topic_defaults_are_read_from_a_server_properties(tmp_path: Path) -> None:
    content = """
        num.partitions=6
        default.replication.factor=3
        log.retention.hours=24
        log.segment.bytes=1000000
        refold.log.segment.bytes=2000000
        unclean.leader.election.enable=true
        inter.broker.protocol.version=2.6
    """
    settings, warnings = loaded(tmp_path, content)
    configuration = settings.configuration()
    assert warnings == ()
    assert (configuration.num_partitions, configuration.default_replication_factor) == (6, 3)
    assert settings.segment_bytes == 2_000_000, "the event log's segment size"
    assert configuration.broker_settings == settings.broker_settings
    assert settings.broker_settings == {
        "log.retention.hours": "24",
        "log.segment.bytes": "1000000",
        "unclean.leader.election.enable": "true",
        "inter.broker.protocol.version": "2.6",
    }


def test_config_entries_have_values_and_sources(tmp_path: Path) -> None:
    content = """
        num.partitions=6
        log.retention.hours=24
        refold.log.segment.bytes=2000000
        ssl.keystore.password=secret
        inter.broker.protocol.version=2.6
    """
    settings, _ = loaded(tmp_path, content)
    reported = {one.name: (one.value, one.source) for one in settings.config_entries}
    assert list(reported) == sorted(reported)
    assert {"broker.id", "delete.topic.enable", "auto.leader.rebalance.enable"} <= reported.keys()
    assert {key: reported[key] for key in (*content_keys(content), "log.retention.ms")} == {
        "num.partitions": ("6", OF_BROKER),
        "log.retention.hours": ("24", OF_BROKER),
        "log.retention.ms": (None, OF_KAFKA),
        "inter.broker.protocol.version": ("2.6", OF_BROKER),
    }
    assert reported["log.roll.hours"] == ("168", OF_KAFKA)
    assert reported["log.segment.bytes"] == ("1073741824", OF_KAFKA), (
        "not the event log's segment size"
    )
    assert reported["broker.rack"] == (None, OF_KAFKA)
    assert not any(key.startswith("refold.") or "secret" in str(reported[key]) for key in reported)


def content_keys(content: str) -> list[str]:
    """The keys of a file that tools may see."""
    keys = [line.strip().partition("=")[0] for line in content.splitlines() if line.strip()]
    return [key for key in keys if not key.startswith(("refold.", "ssl."))]


def test_without_topic_defaults_new_topics_get_kafkas(tmp_path: Path) -> None:
    configuration = loaded(tmp_path)[0].configuration()
    assert (configuration.num_partitions, configuration.default_replication_factor) == (1, 1)
    assert configuration.broker_settings == {}


def test_invalid_topic_defaults_are_rejected(tmp_path: Path) -> None:
    reported = problems(tmp_path, "log.segment.bytes=13\nlog.cleanup.policy=shred")
    assert "log.segment.bytes=13" in reported
    assert "server.properties:1" in reported
    assert "a broker would not start with it: Invalid value 13" in reported
    assert "String must be one of: compact, delete" in reported


@pytest.mark.parametrize("policy", ["create.topic", "alter.config"])
def test_policy_is_refused_with_advice(tmp_path: Path, policy: str) -> None:
    reported = problems(tmp_path, f"{policy}.policy.class.name=org.example.Policy")
    assert f"{policy}.policy.class.name=org.example.Policy" in reported
    assert "Remove it from the daemon's file" in reported


def test_reassignments_are_interruptible_by_default(tmp_path: Path) -> None:
    assert loaded(tmp_path).settings.configuration().has_kip_236
    assert not loaded(tmp_path, "kip-236.enable=false").settings.configuration().has_kip_236
    environment = {**NEEDED, "REFOLD_KIP_236_ENABLE": "false"}
    assert not loaded(tmp_path, environment=environment).settings.configuration().has_kip_236
    assert not loaded(tmp_path, "refold.rules=kafka").settings.configuration().has_kip_236


def test_address_of_zookeeper_needs_no_other_setting(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=a:1/k\nprocess.roles=broker\n")
    assert str(zookeeper_of([], {}, file).connect.servers[0]) == "a:1"
    flag = [RawSetting("zookeeper.connect", "b:2", "--zookeeper")]
    environment = {"REFOLD_ZOOKEEPER_CONNECT": "c:3"}
    assert str(zookeeper_of(flag, environment, file).connect.servers[0]) == "b:2"
    assert str(zookeeper_of([], environment, file).connect.servers[0]) == "c:3"
    with pytest.raises(SettingsError, match=r"zookeeper\.connect is not set: use --zookeeper"):
        zookeeper_of([], {}, None)


def test_status_socket_with_a_path_that_no_socket_can_have_is_refused(tmp_path: Path) -> None:
    longest = "/" + "s" * (SOCKET_PATH_BYTES_MAX - 1)
    settings, _ = loaded(tmp_path, f"refold.status.socket={longest}")
    assert settings.status_socket == Path(longest)
    expected = f"a path of at most {SOCKET_PATH_BYTES_MAX} bytes"
    assert expected in problems(tmp_path, f"refold.status.socket={longest}s")
    settings, _ = loaded(tmp_path)
    assert settings.status_socket is None
