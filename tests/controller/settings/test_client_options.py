from pathlib import Path

import pytest

from controller.security.passwords import Password
from controller.security.stores import StoreSettings
from controller.security.tls import TlsSettings, server_context
from controller.settings.client_options import client_options
from controller.settings.errors import SettingsError
from tests.controller.security.handshakes import shake_hands
from tools.lab.certificates import PASSWORD, CertificateAuthority

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required "


def given(folder: Path, **properties: str) -> Path:
    """A file of properties. The keyword `a_b` is a.b."""
    file = folder / "client.properties"
    lines = (f"{key.replace('_', '.')}={value}\n" for key, value in properties.items())
    file.write_text("".join(lines))
    return file


def test_without_a_file_connections_are_plaintext() -> None:
    assert client_options(None, "--command-config") == {}


def test_properties_of_plaintext_are_read(tmp_path: Path) -> None:
    file = given(tmp_path, client_id="mine", request_timeout_ms="5000", linger_ms="1")
    assert client_options(file, "--command-config") == {
        "security_protocol": "PLAINTEXT",
        "client_id": "mine",
        "request_timeout_ms": 5000,
    }


@pytest.mark.parametrize("quote", ['"', "'"])
def test_login_of_the_jaas_configuration_is_read(tmp_path: Path, quote: str) -> None:
    login = f"{LOGIN} username={quote}me{quote} password={quote}it is;x{quote};"
    file = given(
        tmp_path,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=login,
    )
    assert client_options(file, "--command-config") == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "me",
        "sasl_plain_password": "it is;x",
    }


@pytest.mark.parametrize(
    ("protocol", "has_tls", "has_login"),
    [
        ("PLAINTEXT", False, False),
        ("SSL", True, False),
        ("SASL_PLAINTEXT", False, True),
        ("SASL_SSL", True, True),
    ],
)
def test_protocol_decides_whether_tls_and_login_are_used(
    tmp_path: Path, protocol: str, has_tls: bool, has_login: bool
) -> None:
    file = given(
        tmp_path,
        security_protocol=protocol,
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=f"{LOGIN} username=me password=secret;",
    )
    options = client_options(file, "--command-config")
    assert options["security_protocol"] == protocol
    assert ("ssl_context" in options, "sasl_mechanism" in options) == (has_tls, has_login)


def test_tls_options_are_read(tmp_path: Path) -> None:
    file = given(tmp_path, security_protocol="SSL", ssl_endpoint_identification_algorithm="")
    context = client_options(file, "--command-config")["ssl_context"]
    assert not context.check_hostname


def test_clients_that_run_for_long_use_new_certificates(tmp_path: Path) -> None:
    """The mirror reads its file once."""
    host = "kafka1.example"
    trusted = tmp_path / "trusted.pem"
    file = given(tmp_path, security_protocol="SSL", ssl_truststore_location=str(trusted))
    old, new = (CertificateAuthority(tmp_path / one) for one in ("old", "new"))
    trusted.write_bytes(old.pem.read_bytes())
    context = client_options(file, "--command-config")["ssl_context"]
    trusted.write_bytes(new.pem.read_bytes())
    own = StoreSettings("ssl.keystore", new.issue("kafka1", host).pem, password=Password(PASSWORD))
    serving = TlsSettings("ssl", own, StoreSettings("ssl.truststore"))
    shake_hands(context, server_context(serving), host)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"security_protocol": "TLS"}, "security.protocol 'TLS' must be one of PLAINTEXT, SSL"),
        ({"ssl_engine_factory_class": "com.example.Engine"}, "ssl.engine.factory.class=com.exa"),
        ({"sasl_login_class": "com.example.Login"}, "refold cannot run login classes"),
        (
            {"security_protocol": "SASL_SSL"},
            "sasl.mechanism=GSSAPI: refold does not support it, only PLAIN",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
            "sasl.jaas.config is not a JAAS configuration",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/absent.jks"},
            "ssl.truststore.location /absent.jks cannot be read: No such file",
        ),
        ({"request_timeout_ms": "soon"}, "soon"),
    ],
)
def test_unsupported_client_options_are_rejected(
    tmp_path: Path, properties: dict[str, str], why: str
) -> None:
    with pytest.raises(SettingsError) as fault:
        client_options(given(tmp_path, **properties), "--command-config")
    assert why in str(fault.value)
    assert "--command-config" in str(fault.value)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--command-config"):
        client_options(tmp_path / "absent.properties", "--command-config")
