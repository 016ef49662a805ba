from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka.conn import AIOKafkaConnection

from controller.brokers.errors import Unreachable
from controller.core.values import Endpoint
from controller.settings.errors import SettingsError
from controller.settings.security_keys import PLUGINS
from controller.settings.settings import Settings, load, zookeeper_of
from controller.zookeeper.acls import CREATOR_ACLS, OPEN_ACLS
from controller.zookeeper.connection import PLAIN, ZooKeeperSecurity
from controller.zookeeper.login import DigestLogin, SaslLogin
from tools.lab.certificates import PASSWORD, CertificateAuthority, Identity

NEEDED = {"zookeeper.connect": "zk1:2181", "broker.id": "1000", "refold.log.dir": "/logs"}
SECURE = Endpoint("SECURE", "SASL_SSL", "broker1", 9093)
MODULES = "org.apache.kafka.common.security"
PLAIN_LOGIN = f"{MODULES}.plain.PlainLoginModule required username=kafka password=topsecret;"
SCRAM_LOGIN = f"{MODULES}.scram.ScramLoginModule required username=kafka password=topsecret;"
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"


class SecurityFiles:
    """Files that settings name."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority(folder)
        self.own: Identity = self.authority.issue("client")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> SecurityFiles:
    return SecurityFiles(tmp_path_factory.mktemp("stores"))


def loaded(
    folder: Path, content: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Settings:
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in (NEEDED | content).items()))
    return load([], environment or {}, file).settings


def problems(folder: Path, content: Mapping[str, str]) -> str:
    with pytest.raises(SettingsError) as raised:
        loaded(folder, content)
    assert "topsecret" not in str(raised.value)
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


def jaas(folder: Path, *sections: str) -> Path:
    file = folder / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    login = f"{module} required username=zk password=topsecret;"
    file.write_text("".join(f"{one} {{ {login} }};" for one in sections))
    return file


# ZooKeeper -----------------------------------------------------------------------------------


def zookeeper(folder: Path, content: Mapping[str, str]) -> ZooKeeperSecurity:
    return loaded(folder, content).security.zookeeper


def test_without_keys_zookeeper_is_plain(tmp_path: Path) -> None:
    assert zookeeper(tmp_path, {"zookeeper.ssl.client.enable": "false"}) == PLAIN


def test_tls_of_zookeeper_is_read_from_kafkas_keys(tmp_path: Path, stores: SecurityFiles) -> None:
    found = zookeeper(
        tmp_path,
        {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(stores.authority.pkcs12),
            "zookeeper.ssl.truststore.password": PASSWORD,
            "zookeeper.ssl.keystore.location": str(stores.own.pkcs12),
            "zookeeper.ssl.keystore.password": PASSWORD,
            "zookeeper.ssl.endpoint.identification.algorithm": "",
            "zookeeper.ssl.protocol": "TLSv1.3",
            "zookeeper.set.acl": "true",
        },
    )
    assert found.tls is not None
    context = found.tls.current()
    assert not context.check_hostname
    assert context.minimum_version.name == "TLSv1_3"
    assert (found.login, found.acls) == (None, CREATOR_ACLS)


def test_login_to_zookeeper_is_the_section_of_the_jaas_file(tmp_path: Path) -> None:
    content = {"refold.login.config": str(jaas(tmp_path, "Client")), "zookeeper.set.acl": "true"}
    found = zookeeper(tmp_path, content)
    assert isinstance(found.login, SaslLogin)
    assert (found.login.user, found.acls) == ("zk", CREATOR_ACLS)
    other = {**content, "refold.zookeeper.login.section": "Other"}
    assert "zookeeper.set.acl=true: refold needs a login" in problems(tmp_path, other)
    del other["zookeeper.set.acl"]
    assert zookeeper(tmp_path, other) == ZooKeeperSecurity(None, None, OPEN_ACLS)


def test_commands_that_need_zookeeper_only_log_in_the_same_way(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"zookeeper.connect=zk1:2181\nrefold.login.config={jaas(tmp_path, 'Client')}\n")
    _, security = zookeeper_of([], {}, file)
    assert security.login is not None
    assert security.login.user == "zk"
    file.write_text("zookeeper.connect=zk1:2181\nzookeeper.set.acl=true\n")
    with pytest.raises(SettingsError, match=r"zookeeper\.set\.acl=true: refold needs a login"):
        zookeeper_of([], {}, file)


def test_login_to_zookeeper_may_be_in_settings(tmp_path: Path) -> None:
    environment = {
        "REFOLD_ZOOKEEPER_USERNAME": "zk",
        "REFOLD_ZOOKEEPER_PASSWORD": "topsecret",
        "REFOLD_ZOOKEEPER_AUTH_SCHEME": "digest",
    }
    settings = loaded(tmp_path, {}, environment)
    login = settings.security.zookeeper.login
    assert isinstance(login, DigestLogin)
    assert login.credentials() == b"zk:topsecret"
    assert "topsecret" not in repr(settings)
    assert "topsecret" not in repr(settings.config_entries)


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl=true: refold needs a login"),
        ({"zookeeper.set.acl": "maybe"}, "zookeeper.set.acl=maybe: must be true or false"),
        ({"refold.zookeeper.username": "a"}, "refold.zookeeper.password: set both"),
        (
            {
                "refold.zookeeper.username": "a",
                "refold.zookeeper.password": "topsecret",
                "refold.login.config": "JAAS",
            },
            "has a section Client, too: remove one of them",
        ),
        ({"refold.login.config": "/absent"}, "refold.login.config /absent cannot be read"),
        (
            {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.crl.enable": "true"},
            "zookeeper.ssl.crl.enable=true: refold does not check",
        ),
        (
            {"zookeeper.ssl.client.enable": "true", "refold.zookeeper.ssl.ocsp.enable": "true"},
            "refold.zookeeper.ssl.ocsp.enable=true: refold does not check",
        ),
        (
            {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.endpoint.identification.algorithm": "LDAPS",
            },
            "algorithm=LDAPS: must be https, or empty",
        ),
        (
            {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.truststore.location": "/absent.jks",
            },
            "zookeeper.ssl.truststore.location /absent.jks cannot be read: No such file",
        ),
        (
            {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.keystore.location": "OWN",
                "zookeeper.ssl.keystore.password": "topsecret",
            },
            "cannot be opened: check the file and zookeeper.ssl.keystore.password",
        ),
    ],
)
def test_unusable_setting_for_zookeeper_is_refused(
    tmp_path: Path, stores: SecurityFiles, content: dict[str, str], reported: str
) -> None:
    files = {"JAAS": str(jaas(tmp_path, "Client")), "OWN": str(stores.own.pkcs12)}
    assert reported in problems(
        tmp_path, {key: files.get(text, text) for key, text in content.items()}
    )


# Brokers -------------------------------------------------------------------------------------


def secured(stores: SecurityFiles, mechanism: str, login: str) -> dict[str, str]:
    """Settings of a cluster with one listener, SECURE."""
    return {
        "listener.security.protocol.map": "SECURE:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "SECURE",
        "ssl.truststore.location": "/absent",
        "listener.name.secure.ssl.truststore.location": str(stores.authority.pem),
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.secure.{mechanism.lower()}.sasl.jaas.config": login,
    }


@pytest.mark.parametrize(
    ("mechanism", "login"),
    [("PLAIN", PLAIN_LOGIN), ("SCRAM-SHA-256", SCRAM_LOGIN), ("SCRAM-SHA-512", SCRAM_LOGIN)],
)
async def test_login_to_brokers_is_read_from_the_listener(
    tmp_path: Path, stores: SecurityFiles, mechanism: str, login: str
) -> None:
    settings = loaded(tmp_path, secured(stores, mechanism, login))
    arguments = settings.security.brokers.arguments(SECURE)
    assert arguments["ssl_context"].check_hostname
    assert (
        arguments["security_protocol"],
        arguments["sasl_mechanism"],
        arguments["sasl_plain_username"],
        arguments["sasl_plain_password"],
    ) == ("SASL_SSL", mechanism, "kafka", "topsecret")
    AIOKafkaConnection("broker1", 9093, **arguments)
    assert "topsecret" not in repr(settings)
    assert "topsecret" not in repr(settings.config_entries)


def test_key_for_the_daemon_alone_precedes_that_of_the_broker(
    tmp_path: Path, stores: SecurityFiles
) -> None:
    own = PLAIN_LOGIN.replace("username=kafka", "username=refold")
    key = "refold.listener.name.secure.plain.sasl.jaas.config"
    file = tmp_path / "server.properties"
    content = {**NEEDED, **secured(stores, "PLAIN", PLAIN_LOGIN), key: own}
    file.write_text("".join(f"{name}={text}\n" for name, text in content.items()))
    settings, warnings = load([], {}, file)
    assert settings.security.brokers.arguments(SECURE)["sasl_plain_username"] == "refold"
    assert warnings == ()


def test_keys_of_delegation_tokens_are_named_without_their_value(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    content = NEEDED | {"delegation.token.master.key": "topsecret"}
    file.write_text("".join(f"{name}={text}\n" for name, text in content.items()))
    [warning] = load([], {}, file).warnings
    assert "delegation.token.master.key" in warning
    assert "topsecret" not in warning


def test_security_protocol_selects_the_listener_of_its_name(
    tmp_path: Path, stores: SecurityFiles
) -> None:
    content = {
        "security.inter.broker.protocol": "SSL",
        "ssl.truststore.location": str(stores.authority.pem),
    }
    brokers = loaded(tmp_path, content).security.brokers
    assert brokers.arguments(Endpoint("SSL", "SSL", "broker1", 9093))["security_protocol"] == "SSL"


def test_reference_in_a_message_is_not_resolved(tmp_path: Path) -> None:
    content = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider."
        "EnvVarConfigProvider",
        "zookeeper.set.acl": "${env:HOME}",
    }
    assert "zookeeper.set.acl=${env:HOME}: must be true or false" in problems(tmp_path, content)


def test_login_to_brokers_may_be_in_the_jaas_file(tmp_path: Path, stores: SecurityFiles) -> None:
    file = tmp_path / "brokers.conf"
    other = PLAIN_LOGIN.replace("kafka", "other")
    file.write_text(f"KafkaServer {{ {other} }}; secure.KafkaServer {{ {PLAIN_LOGIN} }};")
    content = secured(stores, "PLAIN", "")
    settings = loaded(tmp_path, {**content, "refold.login.config": str(file)})
    assert settings.security.brokers.arguments(SECURE)["sasl_plain_username"] == "kafka"


async def test_unsecured_oauthbearer_tokens_are_kafkas(
    tmp_path: Path, stores: SecurityFiles
) -> None:
    login = f'{OAUTH} unsecuredLoginStringClaim_sub="refold" unsecuredLoginLifetimeSeconds="60";'
    settings = loaded(tmp_path, secured(stores, "OAUTHBEARER", login))
    arguments = settings.security.brokers.arguments(SECURE)
    AIOKafkaConnection("broker1", 9093, **arguments)
    token = await arguments["sasl_oauth_token_provider"].token()
    assert token.startswith("eyJhbGciOiAibm9uZSJ9.")
    assert token.endswith(".")


def test_listener_with_tls_only_needs_no_login(tmp_path: Path, stores: SecurityFiles) -> None:
    content = {
        "listener.security.protocol.map": "SECURE:SASL_SSL,CONTROL:SSL,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "SECURE",
        "control.plane.listener.name": "CONTROL",
        "ssl.truststore.location": str(stores.authority.pem),
        "ssl.keystore.location": str(stores.own.pem),
    }
    brokers = loaded(tmp_path, content).security.brokers
    control = Endpoint("CONTROL", "SSL", "broker1", 9094)
    assert sorted(brokers.arguments(control)) == ["security_protocol", "ssl_context"]


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [("SECURE", "PLAINTEXT"), ("SECURE", "SASL_PLAINTEXT"), ("OTHER", "SSL")],
)
def test_listener_registered_with_another_protocol_is_not_used(
    tmp_path: Path, stores: SecurityFiles, listener: str, protocol: str
) -> None:
    brokers = loaded(tmp_path, secured(stores, "PLAIN", PLAIN_LOGIN)).security.brokers
    with pytest.raises(Unreachable, match=f"registered this listener with {protocol}, refold is"):
        brokers.arguments(Endpoint(listener, protocol, "broker1", 9093))


@pytest.mark.parametrize(
    ("mechanism", "login", "reported"),
    [
        ("GSSAPI", "x.Krb5LoginModule required;", "protocol=GSSAPI: refold does not support it"),
        ("PLAIN", "", "listener.name.secure.plain.sasl.jaas.config is not set"),
        ("PLAIN", SCRAM_LOGIN, "does not support org.apache.kafka.common.security.scram"),
        ("SCRAM-SHA-256", SCRAM_LOGIN[:-1] + " tokenauth=true;", "no delegation tokens"),
        (
            "PLAIN",
            PLAIN_LOGIN.replace(" password=topsecret", ""),
            "needs a username and a password",
        ),
        ("PLAIN", PLAIN_LOGIN.replace("org.apache", "x"), "does not support x.kafka.common"),
        ("PLAIN", "topsecret", "is not a JAAS configuration: expected required"),
        ("OAUTHBEARER", f"{OAUTH} clientId=a;", "refold does not ask a token endpoint"),
        (
            "OAUTHBEARER",
            f"{OAUTH} unsecuredLoginStringClaim_sub=a unsecuredLoginLifetimeSeconds=long;",
            "unsecuredLoginLifetimeSeconds must be a whole number",
        ),
    ],
)
def test_login_to_brokers_that_cannot_be_used_is_refused(
    tmp_path: Path, stores: SecurityFiles, mechanism: str, login: str, reported: str
) -> None:
    assert reported in problems(tmp_path, secured(stores, mechanism, login))


# Plugins -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", PLUGINS)
@pytest.mark.parametrize("prefix", ["", "listener.name.secure.", "listener.name.secure.plain."])
def test_class_that_refold_cannot_run_is_refused_by_name(
    tmp_path: Path, key: str, prefix: str
) -> None:
    line = f"{prefix}{key}=com.example.Own"
    assert f"{line} (" in problems(tmp_path, {f"{prefix}{key}": "com.example.Own"})


def test_kafkas_default_classes_are_allowed(tmp_path: Path) -> None:
    builder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    classes = {"principal.builder.class": builder, "sasl.login.class": ""}
    assert loaded(tmp_path, classes) == loaded(tmp_path, {})
