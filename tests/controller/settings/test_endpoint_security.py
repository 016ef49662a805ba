"""Kafka's security keys for the listeners of the endpoint."""

from pathlib import Path

import pytest

from controller.core.configuration import Authorization
from controller.core.values import Endpoint
from controller.security.oauthbearer import TokenRules
from controller.security.passwords import Password
from controller.settings.errors import SettingsError
from controller.settings.settings import Settings, load
from tests.controller.settings.test_security import (
    NEEDED,
    OAUTH,
    SecurityFiles,
    loaded,
    problems,
    stores,
)

__all__ = ["stores"]

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def of_listener(stores: SecurityFiles, protocol: str, **more: str) -> dict[str, str]:
    return {
        "listeners": "CLIENTS://:9093",
        "listener.security.protocol.map": f"CLIENTS:{protocol},PLAINTEXT:PLAINTEXT",
        "ssl.keystore.location": str(stores.own.pem),
        "ssl.truststore.location": str(stores.authority.pem),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "plain.sasl.jaas.config": f'{PLAIN} user_alice="topsecret" user_bob="topsecret2";',
    } | more


def read(folder: Path, content: dict[str, str]) -> Settings:
    return loaded(folder, content)


def test_listener_has_the_keys_of_a_broker(tmp_path: Path, stores: SecurityFiles) -> None:
    content = of_listener(
        stores,
        "SASL_SSL",
        **{
            "sasl.server.max.receive.size": "1000",
            "listener.name.clients.connection.failed.authentication.delay.ms": "0",
        },
    )
    found = read(tmp_path, content).security.endpoint["CLIENTS"]
    assert found.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert found.users == {"alice": Password("topsecret"), "bob": Password("topsecret2")}
    assert (found.receive_bytes_max, found.failure_delay_ms) == (1000, 0)
    assert found.tls is not None
    assert found.tls.client_auth == "none"


@pytest.mark.parametrize(
    ("protocol", "key", "asked"),
    [
        ("SSL", "ssl.client.auth", "required"),
        ("SASL_SSL", "ssl.client.auth", "none"),
        ("SASL_SSL", "listener.name.clients.ssl.client.auth", "required"),
    ],
)
def test_certificates_of_clients_are_asked_for_as_in_kafka(
    tmp_path: Path, stores: SecurityFiles, protocol: str, key: str, asked: str
) -> None:
    content = of_listener(stores, protocol, **{key: "required"})
    tls = read(tmp_path, content).security.endpoint["CLIENTS"].tls
    assert tls is not None
    assert tls.client_auth == asked


@pytest.mark.parametrize(
    ("key", "value", "reported"),
    [
        ("sasl.enabled.mechanisms", "PLAIN,GSSAPI", "does not support GSSAPI, only"),
        ("sasl.enabled.mechanisms", "", "sasl.enabled.mechanisms=GSSAPI: refold's endpoint"),
        ("plain.sasl.jaas.config", "", "plain.sasl.jaas.config is not set"),
        ("plain.sasl.jaas.config", 'x.LdapLoginModule required user_a="b";', "x.LdapLoginModule"),
        ("ssl.client.auth", "maybe", "must be one of none, requested, required"),
        ("ssl.keystore.location", "", "keystore.location must be set for a TLS listener"),
        ("ssl.principal.mapping.rules", "RULE:x", "expected DEFAULT or RULE:pattern"),
        ("ssl.principal.mapping.rules", "RULE:(/x/", "ssl.principal.mapping.rules: RULE:(/x/:"),
        ("sasl.server.max.receive.size", "big", "must be a whole number"),
    ],
)
def test_key_that_refold_cannot_follow_is_refused_by_name(
    tmp_path: Path, stores: SecurityFiles, key: str, value: str, reported: str
) -> None:
    assert reported in problems(tmp_path, of_listener(stores, "SASL_SSL", **{key: value}))


def test_oauthbearer_has_the_options_of_kafkas_validator(
    tmp_path: Path, stores: SecurityFiles
) -> None:
    def of(options: str) -> dict[str, str]:
        keys = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="a"{options};',
        }
        return of_listener(stores, "SASL_SSL", **keys)

    found = read(tmp_path, of("")).security.endpoint["CLIENTS"]
    assert (found.mechanisms, found.token_rules) == (("OAUTHBEARER",), TokenRules())
    options = (
        ' unsecuredValidatorPrincipalClaimName="who" unsecuredValidatorScopeClaimName="may" '
        'unsecuredValidatorRequiredScope="a b" unsecuredValidatorAllowableClockSkewMs="{}"'
    )
    found = read(tmp_path, of(options.format("5"))).security.endpoint["CLIENTS"]
    assert found.token_rules == TokenRules(
        principal_claim="who", scope_claim="may", required_scope=("a", "b"), clock_skew_ms=5
    )
    assert "unsecuredValidatorAllowableClockSkewMs: must be" in problems(
        tmp_path, of(options.format("-1"))
    )


def test_gssapi_is_refused_with_what_to_do(tmp_path: Path, stores: SecurityFiles) -> None:
    content = of_listener(stores, "SASL_SSL", **{"sasl.enabled.mechanisms": "GSSAPI"})
    assert (
        "sasl.enabled.mechanisms=GSSAPI: refold's endpoint does not support GSSAPI, only PLAIN, "
        "SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; set refold.sasl.enabled.mechanisms for refold "
        "alone"
    ) in problems(tmp_path, content)


@pytest.mark.parametrize(
    ("mechanism", "prefix", "is_allowed"),
    [
        ("PLAIN", "", True),
        ("SCRAM-SHA-256", "", False),
        ("OAUTHBEARER", "", False),
        ("SCRAM-SHA-256", "refold.listener.name.clients.", False),
        ("SCRAM-SHA-512", "listener.name.clients.", True),
    ],
)
def test_mechanism_of_brokers_must_be_enabled_at_the_inter_broker_listener(
    tmp_path: Path, stores: SecurityFiles, mechanism: str, prefix: str, is_allowed: bool
) -> None:
    key = "sasl.mechanism.inter.broker.protocol"
    content = of_listener(
        stores,
        "SASL_SSL",
        **{
            key: mechanism,
            "inter.broker.listener.name": "CLIENTS",
            f"{prefix}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "plain.sasl.jaas.config": f'{PLAIN} username="a" password="b" user_a="b";',
            "scram-sha-256.sasl.jaas.config": f"{SCRAM} username=a password=b;",
            "scram-sha-512.sasl.jaas.config": f"{SCRAM} username=a password=b;",
            "oauthbearer.sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="a";',
        },
    )
    if is_allowed:
        assert read(tmp_path, content).security.endpoint.keys() == {"CLIENTS"}
    else:
        assert (
            f"{key}={mechanism}: must be included in {prefix}sasl.enabled.mechanisms="
            "PLAIN,SCRAM-SHA-512: otherwise brokers cannot log in to refold"
        ) in problems(tmp_path, content)
    # Brokers do not log in to other listeners.
    others = content | {"inter.broker.listener.name": "PLAINTEXT"}
    assert read(tmp_path, others).security.endpoint.keys() == {"CLIENTS"}


@pytest.mark.parametrize(
    ("protocol", "changes", "is_warned"),
    [
        ("SASL_PLAINTEXT", {}, True),
        ("SASL_SSL", {}, True),
        ("SASL_SSL", {"listener.name.clients.ssl.client.auth": "required"}, False),
        ("SASL_SSL", {"sasl.enabled.mechanisms": "PLAIN"}, False),
        ("SASL_SSL", {"authorizer.class.name": ""}, False),
    ],
)
def test_listener_where_a_client_may_claim_to_be_a_super_user_is_named(
    tmp_path: Path, stores: SecurityFiles, protocol: str, changes: dict[str, str], is_warned: bool
) -> None:
    content = NEEDED | of_listener(
        stores,
        protocol,
        **{
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="a";',
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:admin",
            **changes,
        },
    )
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in content.items()))
    warnings = [one for one in load([], {}, file).warnings if "OAUTHBEARER" in one]
    assert [one.startswith("listener CLIENTS: nothing signs") for one in warnings] == [
        True
    ] * is_warned


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("plain_is_first", [True, False])
def test_section_of_the_jaas_file_may_have_a_login_module_of_each_mechanism(
    tmp_path: Path, stores: SecurityFiles, mechanism: str, plain_is_first: bool
) -> None:
    modules = [
        f'{PLAIN} username="plain" password="topsecret" user_alice="topsecret2";',
        f'{SCRAM} username="scram" password="topsecret3";',
    ]
    jaas = tmp_path / "jaas.conf"
    entries = modules if plain_is_first else reversed(modules)
    jaas.write_text(f"KafkaServer {{ {' '.join(entries)} }};")
    content = of_listener(
        stores,
        "SASL_SSL",
        **{
            "plain.sasl.jaas.config": "",
            "refold.login.config": str(jaas),
            "inter.broker.listener.name": "CLIENTS",
            "sasl.mechanism.inter.broker.protocol": mechanism,
        },
    )
    security = read(tmp_path, content).security
    assert security.endpoint["CLIENTS"].users == {"alice": Password("topsecret2")}
    login = security.brokers.arguments(Endpoint("CLIENTS", "SASL_SSL", "broker1", 9093))
    expected = "plain" if mechanism == "PLAIN" else "scram"
    assert login["sasl_plain_username"] == expected


@pytest.mark.parametrize("authorizer", ["org.example.Authorizer", AUTHORIZER])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("principal.builder.class", "org.example.Builder"),
        ("process.roles", "broker"),
        ("num.partitions", "many"),
        ("zookeeper.set.acl", "maybe"),
    ],
)
def test_problem_of_the_authorizer_is_the_first_of_several(
    tmp_path: Path, stores: SecurityFiles, authorizer: str, key: str, value: str
) -> None:
    content = {
        **of_listener(stores, "SASL_SSL", **{key: value}),
        "authorizer.class.name": authorizer,
        "super.users": "admin",
    }
    with pytest.raises(SettingsError) as raised:
        loaded(tmp_path, content)
    first, second, *_ = raised.value.problems
    assert first.startswith("authorizer.class.name=" if authorizer != AUTHORIZER else "super.users")
    assert key in second


def test_authorizer_of_kafka_is_followed(tmp_path: Path) -> None:
    content = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin; User:CN=broker,O=x",
        "allow.everyone.if.no.acl.found": "true",
    }
    authorization = Authorization(
        super_users=("User:admin", "User:CN=broker,O=x"), allows_without_acl=True
    )
    assert read(tmp_path, content).configuration().authorization == authorization
    without = read(tmp_path, content | {"authorizer.class.name": ""})
    assert without.configuration().authorization is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "org.example.Authorizer"),
        ("authorizer.zookeeper.url", "zk2:2181"),
        ("super.users", "admin"),
    ],
)
def test_authorizer_that_refold_cannot_follow_is_refused(
    tmp_path: Path, key: str, value: str
) -> None:
    content = {"authorizer.class.name": AUTHORIZER, key: value}
    assert f"{key}={value}" in problems(tmp_path, content)


def test_time_of_a_login_is_that_of_its_mechanism(tmp_path: Path, stores: SecurityFiles) -> None:
    content = of_listener(
        stores,
        "SASL_SSL",
        **{
            "connections.max.reauth.ms": "60000",
            "listener.name.clients.scram-sha-512.connections.max.reauth.ms": "1000",
        },
    )
    found = read(tmp_path, content).security.endpoint["CLIENTS"]
    assert found.session_ms == {"PLAIN": 60_000, "SCRAM-SHA-512": 1_000}
    content = of_listener(stores, "SASL_SSL", **{"connections.max.reauth.ms": "soon"})
    assert "connections.max.reauth.ms=soon: must be a whole number" in problems(tmp_path, content)
