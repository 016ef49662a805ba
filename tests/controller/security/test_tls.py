import ssl
from pathlib import Path

import pytest

from controller.security.errors import SecurityError
from controller.security.passwords import Password
from controller.security.stores import StoreSettings
from controller.security.tls import ReloadedContext, TlsSettings, client_context, server_context
from controller.security.tls_errors import reason_of
from tests.controller.security.handshakes import alert_of, shake_hands
from tools.lab.certificates import PASSWORD, CertificateAuthority, Identity

HOST = "zk1.example"
CIPHER = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path)


@pytest.fixture
def server(authority: CertificateAuthority) -> Identity:
    return authority.issue("server", HOST)


def store(kind: str, location: Path | None, password: str | None = PASSWORD) -> StoreSettings:
    secret = Password(password) if password is not None else None
    return StoreSettings(f"ssl.{kind}", location, password=secret)


def trusting(trusted: Path | None, own: Path | None = None, **more: object) -> TlsSettings:
    stores = store("keystore", own), store("truststore", trusted)
    return TlsSettings("ssl", *stores, **more)  # type: ignore[arg-type]


def serving(own: Path, trusted: Path | None = None, **more: object) -> ssl.SSLContext:
    return server_context(trusting(trusted, own, **more))


def failure(client: ssl.SSLContext, server: ssl.SSLContext, host: str = HOST) -> str:
    with pytest.raises(ssl.SSLError) as raised:
        shake_hands(client, server, host)
    return reason_of(raised.value)


def test_certificates_in_pkcs12_and_pem_are_trusted(
    authority: CertificateAuthority, server: Identity
) -> None:
    for own in server:
        for trusted in (authority.pkcs12, authority.pem):
            version, _ = shake_hands(client_context(trusting(trusted)), serving(own), HOST)
            assert version == "TLSv1.3"


def test_server_of_another_authority_is_rejected(tmp_path: Path, server: Identity) -> None:
    other = CertificateAuthority(tmp_path, "other")
    found = failure(client_context(trusting(other.pem)), serving(server.pem))
    assert found == (
        "its certificate cannot be trusted: unable to get local issuer certificate: the truststore "
        "does not contain the authority that issued it"
    )


def test_expired_certificate_is_rejected(authority: CertificateAuthority) -> None:
    ended = serving(authority.issue("old", HOST, ended=True).pem)
    found = failure(client_context(trusting(authority.pem)), ended)
    assert found == "its certificate cannot be trusted: certificate has expired"


def test_host_name_is_verified_unless_that_is_switched_off(
    authority: CertificateAuthority, server: Identity
) -> None:
    found = failure(client_context(trusting(authority.pem)), serving(server.pem), "zk2.example")
    assert "Hostname mismatch, certificate is not valid for 'zk2.example'" in found
    anyone = client_context(trusting(authority.pem, verifies_host=False))
    shake_hands(anyone, serving(server.pem), "zk2.example")


def test_without_a_truststore_the_systems_authorities_are_trusted(server: Identity) -> None:
    assert "cannot be trusted" in failure(client_context(trusting(None)), serving(server.pem))


def test_certificate_in_a_truststore_needs_no_authority_above_it(server: Identity) -> None:
    shake_hands(client_context(trusting(server.pem)), serving(server.pem), HOST)


def test_certificate_of_a_client_in_a_truststore_needs_no_authority_above_it(
    authority: CertificateAuthority, server: Identity
) -> None:
    own = authority.issue("client")
    demanding = serving(server.pem, own.pem, client_auth="required")
    shake_hands(client_context(trusting(authority.pem, own.pem)), demanding, HOST)


def test_client_shows_its_certificate(
    tmp_path: Path, authority: CertificateAuthority, server: Identity
) -> None:
    demanding = serving(server.pem, authority.pem, client_auth="required")
    own = authority.issue("client")
    for file in own:
        shake_hands(client_context(trusting(authority.pem, file)), demanding, HOST)
    assert failure(client_context(trusting(authority.pem)), demanding) == (
        "TLS failed: peer did not return a certificate"
    )
    stranger = CertificateAuthority(tmp_path, "other").issue("stranger")
    found = failure(client_context(trusting(authority.pem, stranger.pem)), demanding)
    assert found == (
        "its certificate cannot be trusted: unable to get local issuer certificate: the truststore "
        "does not contain the authority that issued it"
    )


def test_client_whose_certificate_is_refused_reports_why(
    tmp_path: Path, authority: CertificateAuthority, server: Identity
) -> None:
    demanding = serving(server.pem, authority.pem, client_auth="required")
    stranger = CertificateAuthority(tmp_path, "other").issue("stranger")
    refusal = "it refuses the certificate that it was shown: "
    for own, why in (
        (stranger.pem, "its truststore does not contain the authority that issued it"),
        (authority.issue("old", ended=True).pem, "the certificate has expired"),
        (None, "it requires one, and none is in the keystore"),
    ):
        error = alert_of(client_context(trusting(authority.pem, own)), demanding, HOST)
        assert reason_of(error) == refusal + why


def test_client_of_an_authority_that_was_taken_out_of_the_truststore_is_refused(
    tmp_path: Path, authority: CertificateAuthority, server: Identity
) -> None:
    old = CertificateAuthority(tmp_path, "old-authority")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.pem.read_bytes() + old.pem.read_bytes())
    settings = trusting(trusted, server.pem, client_auth="required")
    reloaded = ReloadedContext(settings, server_context, pytest.fail)
    of_old = client_context(trusting(authority.pem, old.issue("old-client").pem))
    of_new = client_context(trusting(authority.pem, authority.issue("new-client").pem))
    for client in (of_old, of_new):
        shake_hands(client, reloaded.current(), HOST)
    trusted.write_bytes(authority.pem.read_bytes())
    assert "does not contain the authority" in failure(of_old, reloaded.current())
    shake_hands(of_new, reloaded.current(), HOST)


@pytest.mark.parametrize(
    ("protocols", "ciphers", "expected"),
    [
        (("TLSv1.2",), (), "TLSv1.2"),
        (("TLSv1.3",), (), "TLSv1.3"),
        ((), (CIPHER,), "TLSv1.2"),
        ((), ("TLS_AES_256_GCM_SHA384",), "TLSv1.3"),
        ((), ("TLS_AES_256_GCM_SHA384", CIPHER), "TLSv1.3"),
    ],
)
def test_versions_and_ciphers_are_restricted(
    authority: CertificateAuthority,
    server: Identity,
    protocols: tuple[str, ...],
    ciphers: tuple[str, ...],
    expected: str,
) -> None:
    client = client_context(trusting(authority.pem, protocols=protocols, ciphers=ciphers))
    version, cipher = shake_hands(client, serving(server.pem), HOST)
    assert version == expected
    if len(ciphers) == 1 and expected == "TLSv1.2":
        assert cipher == "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_downgrade_below_the_configured_version_is_rejected(
    authority: CertificateAuthority, server: Identity
) -> None:
    client = client_context(trusting(authority.pem, protocols=("TLSv1.3",)))
    assert failure(client, serving(server.pem, protocols=("TLSv1.2",))).startswith("TLS failed")


@pytest.mark.parametrize(
    ("own", "trusted", "more", "reported"),
    [
        ("absent", None, {}, r"ssl\.keystore\.location .*absent cannot be read: No such file"),
        ("jks", None, {}, "is a JKS file, which refold cannot read: convert it: keytool"),
        (None, "jks", {}, r"ssl\.truststore\.location .*jks is a JKS file"),
        ("noise", None, {}, "cannot be opened: check the file and ssl.keystore.password"),
        ("p12", None, {"password": "wrong"}, "cannot be opened: check the file"),
        ("ca.pem", None, {}, "has no readable private key"),
        (None, "empty.pem", {}, "has no readable certificate"),
        (None, None, {"protocols": ("SSLv3",)}, r"ssl\.enabled\.protocols: SSLv3 is not one of"),
        (None, None, {"ciphers": ("TLS_NOPE",)}, "ssl.cipher.suites: TLS_NOPE is unknown"),
        (None, None, {"ciphers": (CIPHER, "TLS_RSA_WITH_NOTHING")}, "TLS_RSA_WITH_NOTHING is"),
    ],
)
def test_unusable_setting_is_reported_with_its_key(
    tmp_path: Path,
    authority: CertificateAuthority,
    server: Identity,
    own: str | None,
    trusted: str | None,
    more: dict[str, object],
    reported: str,
) -> None:
    (tmp_path / "jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (tmp_path / "noise").write_bytes(b"noise")
    (tmp_path / "empty.pem").write_text("-----BEGIN nothing")
    (tmp_path / "p12").write_bytes(server.pkcs12.read_bytes())
    (tmp_path / "ca.pem").write_bytes(authority.pem.read_bytes())
    password = str(more.pop("password", PASSWORD))
    settings = TlsSettings(
        "ssl",
        store("keystore", own and tmp_path / own, password),
        store("truststore", trusted and tmp_path / trusted, password),
        **more,  # type: ignore[arg-type]
    )
    with pytest.raises(SecurityError, match=reported) as raised:
        client_context(settings)
    assert PASSWORD not in str(raised.value)


def test_pem_text_in_settings_is_an_identity(
    authority: CertificateAuthority, server: Identity
) -> None:
    text = server.pem.read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    keystore = StoreSettings("ssl.keystore", certificates=text[at:], key=Password(text[:at]))
    truststore = StoreSettings("ssl.truststore", certificates=authority.pem.read_text())
    made = server_context(TlsSettings("ssl", keystore, truststore))
    shake_hands(client_context(TlsSettings("ssl", StoreSettings(""), truststore)), made, HOST)
    assert "PRIVATE KEY" not in repr(keystore)


def test_changed_certificates_are_used_for_the_next_connection(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    other = CertificateAuthority(tmp_path / "other").issue("server", HOST)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.pem.read_bytes())
    failures: list[str] = []
    reloaded = ReloadedContext(trusting(trusted), client_context, failures.append)
    first = reloaded.current()
    assert reloaded.current() is first
    trusted.write_bytes((tmp_path / "other" / "lab-authority.pem").read_bytes())
    shake_hands(reloaded.current(), serving(other.pem), HOST)
    trusted.write_text("-----BEGIN damage")
    shake_hands(reloaded.current(), serving(other.pem), HOST)
    reloaded.current()
    (one,) = failures
    assert "has no readable certificate; connections continue with the earlier certificates" in one


def test_delegate_makes_each_connection_with_the_current_certificates(
    authority: CertificateAuthority, server: Identity, tmp_path: Path
) -> None:
    other = CertificateAuthority(tmp_path / "other").issue("other", HOST)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.pem.read_bytes())
    delegate = ReloadedContext(trusting(trusted), client_context, pytest.fail).delegate()
    shake_hands(delegate, serving(server.pem), HOST)
    trusted.write_bytes((tmp_path / "other" / "lab-authority.pem").read_bytes())
    shake_hands(delegate, serving(other.pem), HOST)
    assert "cannot be trusted" in failure(delegate, serving(server.pem))
