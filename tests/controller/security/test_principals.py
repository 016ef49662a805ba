"""Names in certificates, and the rules of ssl.principal.mapping.rules. The cases are those of
Kafka's SslPrincipalMapperTest."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from controller.security.errors import LoginRejected, SecurityError
from controller.security.principals import PrincipalMapper, distinguished_name

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)
OIDS = {
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "C": NameOID.COUNTRY_NAME,
    "MAIL": NameOID.EMAIL_ADDRESS,
}
Parts = tuple[tuple[str, str], ...]


def name_of(*parts: tuple[str, str]) -> x509.Name:
    """A name whose parts are in the order in which Java writes them."""
    return x509.Name([x509.NameAttribute(OIDS[key], value) for key, value in reversed(parts)])


def certificate(name: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


@pytest.mark.parametrize(
    ("parts", "principal"),
    [
        ((("CN", "Duke"), ("OU", "ServiceUsers"), ("O", "Org"), ("C", "US")), "User:duke"),
        (
            (
                ("CN", "Duke"),
                ("OU", "SME"),
                ("O", "mycp"),
                ("L", "Fulton"),
                ("ST", "MD"),
                ("C", "US"),
            ),
            "User:duke@sme",
        ),
        ((("CN", "kafka.example"), ("OU", "x")), "User:KAFKA.EXAMPLE"),
        ((("OU", "JavaSoft"), ("O", "Sun"), ("C", "US")), "User:OU=JavaSoft,O=Sun,C=US"),
    ],
)
def test_first_rule_that_matches_makes_the_principal(parts: Parts, principal: str) -> None:
    assert PrincipalMapper(RULES).principal(certificate(name_of(*parts))) == principal


def test_certificate_without_a_matching_rule_is_refused() -> None:
    mapper = PrincipalMapper("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/")
    with pytest.raises(LoginRejected, match="no rule of ssl"):
        mapper.principal(certificate(name_of(("CN", "Duke"))))


@pytest.mark.parametrize(
    "rules",
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(.*?)$/$1/U,DEFAUL",
        "deny",
    ],
)
def test_text_that_is_no_list_of_rules_is_refused(rules: str) -> None:
    with pytest.raises(SecurityError, match="expected DEFAULT or RULE"):
        PrincipalMapper(rules)


def test_name_is_written_as_java_writes_it() -> None:
    written = distinguished_name(name_of(("CN", "a, b"), ("MAIL", "a@b"), ("C", "DE")))
    assert written == r"CN=a\, b,1.2.840.113549.1.9.1=#1603614062,C=DE"
    for name, of_java in {
        "a=b": r"a\=b",
        "a#b": r"a\#b",
        "#a": r"\#a",
        "  two": r"\ \ two",
        "two  ": r"two\ \ ",
        " ": r"\ ",
        'a"b<c>d;e+f': r"a\"b\<c\>d\;e\+f",
        "a\\b": r"a\\b",
        "a\0b": r"a\00b",
        "a\nb": "a\nb",
        "\N{LATIN SMALL LETTER U WITH DIAERESIS}/": "\N{LATIN SMALL LETTER U WITH DIAERESIS}/",
    }.items():
        assert distinguished_name(name_of(("CN", name))) == f"CN={of_java}"
    long = distinguished_name(name_of(("MAIL", "a" * 130)))
    assert long == "1.2.840.113549.1.9.1=#168182" + "61" * 130
