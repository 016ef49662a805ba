"""Reads certificates and keys from Kafka's stores: PEM files, PEM text in settings, PKCS12 files.

JKS is refused: no maintained Python library reads it without code to compile. Java 9 and later
write PKCS12 by default, also to files named .jks, so the content decides.
"""

import re
import secrets
import tempfile
from pathlib import Path
from ssl import SSLContext, SSLError
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import Certificate, load_pem_x509_certificates

from controller.security.errors import SecurityError
from controller.security.passwords import Password

_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PRIVATE_KEY: Final = re.compile(
    rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL
)
_CONVERT: Final = (
    "convert it: keytool -importkeystore -srckeystore OLD.jks -destkeystore NEW.p12 "
    "-deststoretype PKCS12"
)


class StoreSettings(NamedTuple):
    """Where certificates are. `prefix` begins the keys in messages, such as
    `zookeeper.ssl.keystore`. `kind`: Kafka's type (JKS, PKCS12, PEM), which only PEM is held to.
    `certificates` and `key` are PEM text given in the settings; `key_password` protects a key in
    PEM."""

    prefix: str
    location: Path | None = None
    kind: str = "JKS"
    password: Password | None = None
    certificates: str | None = None
    key: Password | None = None
    key_password: Password | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is a store at all."""
        return self.location is not None or self.certificates is not None


class _Identity(NamedTuple):
    key: PrivateKeyTypes
    chain: list[Certificate]


def load_identity(store: StoreSettings, context: SSLContext) -> None:
    """Give a context the certificate chain and key of a keystore. Raises SecurityError."""
    key, chain = _identity(store)
    if not chain:
        raise SecurityError(f"{_place(store)} has no certificate of its private key")
    # ssl reads files only. The key is encrypted with a password that exists only in this process.
    password = secrets.token_hex(16)
    protection = BestAvailableEncryption(password.encode())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)
    pem += b"".join(one.public_bytes(Encoding.PEM) for one in chain)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except SSLError:
            text = f"{_place(store)}: the private key does not belong to the certificate"
            raise SecurityError(text) from None


def load_trusted(store: StoreSettings, context: SSLContext) -> None:
    """Let a context trust the certificates of a truststore, and no others. Raises
    SecurityError."""
    trusted = _trusted_certificates(store)
    if not trusted:
        raise SecurityError(f"{_place(store)} has no certificate to trust")
    for one in trusted:
        context.load_verify_locations(cadata=one.public_bytes(Encoding.DER))


def _trusted_certificates(store: StoreSettings) -> list[Certificate]:
    content = _content(store)
    if not _is_pem(store, content):
        return [one.certificate for one in _pkcs12(store, content).additional_certs]
    return _certificates(store, content)


def _identity(store: StoreSettings) -> _Identity:
    content = _content(store)
    if _is_pem(store, content):
        key_text = content if store.key is None else store.key.reveal().encode()
        return _Identity(_pem_key(store, key_text), _certificates(store, content))
    found = _pkcs12(store, content)
    if found.key is None or found.cert is None:
        raise SecurityError(f"{_place(store)} has no private key with its certificate")
    chain = [found.cert.certificate, *(one.certificate for one in found.additional_certs)]
    return _Identity(found.key, chain)


def _content(store: StoreSettings) -> bytes:
    if store.location is None:
        return (store.certificates or "").encode()
    try:
        content = store.location.read_bytes()
    except OSError as error:
        raise SecurityError(f"{_place(store)} cannot be read: {error.strerror}") from None
    if content[:4] in _JKS_MAGIC:
        raise SecurityError(f"{_place(store)} is a JKS file, which refold cannot read: {_CONVERT}")
    return content


def _is_pem(store: StoreSettings, content: bytes) -> bool:
    return store.kind.upper() == "PEM" or b"-----BEGIN " in content


def _pkcs12(store: StoreSettings, content: bytes) -> pkcs12.PKCS12KeyAndCertificates:
    password = store.password.reveal().encode() if store.password else None
    try:
        return pkcs12.load_pkcs12(content, password)
    except ValueError:
        advice = f"check the file and {store.prefix}.password"
        raise SecurityError(f"{_place(store)} cannot be opened: {advice}") from None


def _certificates(store: StoreSettings, content: bytes) -> list[Certificate]:
    try:
        return load_pem_x509_certificates(content)
    except ValueError:
        raise SecurityError(f"{_place(store)} has no readable certificate") from None


def _pem_key(store: StoreSettings, content: bytes) -> PrivateKeyTypes:
    password = store.key_password.reveal().encode() if store.key_password else None
    block = _PRIVATE_KEY.search(content)
    try:
        return load_pem_private_key(block[0] if block else b"", password)
    except (TypeError, ValueError):
        advice = "it must be in PKCS8 format; check the password of the key"
        raise SecurityError(f"{_place(store)} has no readable private key: {advice}") from None


def _place(store: StoreSettings) -> str:
    if store.location is None:
        return f"{store.prefix}: the text of the setting"
    return f"{store.prefix}.location {store.location}"
