"""Certificates for the servers of the lab, made as they are needed."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from tools.lab.ports import HOST

PASSWORD = "store-password"
"""Of every PKCS12 file."""
_LIFE = timedelta(days=1)


class Identity(NamedTuple):
    """A private key and its certificate, as a PKCS12 file and as a PEM file."""

    pkcs12: Path
    pem: Path


class CertificateAuthority:
    """Signs certificates. `pem` and `pkcs12` contain its own certificate, for truststores."""

    def __init__(self, folder: Path, name: str = "lab-authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _x509_name(name)
        self._certificate = (
            _valid(self._name, self._name, self._key.public_key(), datetime.now(UTC))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS, critical=True)
            .add_extension(_key_identifier(self._key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = folder / f"{name}.pem"
        self.pem.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        self.pkcs12 = folder / f"{name}.p12"
        trusted = pkcs12.PKCS12Certificate(self._certificate, name.encode())
        self.pkcs12.write_bytes(
            pkcs12.serialize_java_truststore([trusted], BestAvailableEncryption(PASSWORD.encode()))
        )

    def issue(self, name: str, host: str = HOST, *, ended: bool = False) -> Identity:
        """A certificate for a server or client at this host; if it has `ended`, it was valid until
        an hour ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        begin = datetime.now(UTC) - (_LIFE + timedelta(hours=1) if ended else timedelta())
        certificate = (
            _valid(_x509_name(name), self._name, key.public_key(), begin)
            .add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
            .add_extension(_key_identifier(key), critical=False)
            .add_extension(_authority_of(self._key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        found = Identity(self._folder / f"{name}.p12", self._folder / f"{name}.pem")
        found.pkcs12.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(),
                key,
                certificate,
                [self._certificate],
                BestAvailableEncryption(PASSWORD.encode()),
            )
        )
        found.pem.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + certificate.public_bytes(Encoding.PEM)
        )
        return found


# Python 3.13 and later require these extensions of a context with the default settings.
_SIGNS: Final = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _key_identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _authority_of(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _x509_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _valid(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime
) -> x509.CertificateBuilder:
    """A certificate that is valid from a minute before `begin`: clocks differ a little."""
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - timedelta(minutes=1))
        .not_valid_after(begin + _LIFE)
    )
