"""The principals of clients by their certificates (DefaultKafkaPrincipalBuilder,
SslPrincipalMapper)."""

import re
from typing import Final, NamedTuple

from cryptography.x509 import Name, NameAttribute, load_der_x509_certificate
from cryptography.x509.oid import NameOID

from controller.core.api_requests.received_request import ANONYMOUS
from controller.security.errors import LoginRejected, SecurityError

_SETTING: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"DEFAULT|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
)
_SEPARATOR: Final = re.compile(r"\s*(?:[,\n]\s*|$)")
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_OUTER: Final = " \r"
_JAVAS_NAMES: Final = frozenset(
    {
        NameOID.COMMON_NAME,
        NameOID.LOCALITY_NAME,
        NameOID.STATE_OR_PROVINCE_NAME,
        NameOID.ORGANIZATION_NAME,
        NameOID.ORGANIZATIONAL_UNIT_NAME,
        NameOID.COUNTRY_NAME,
        NameOID.STREET_ADDRESS,
        NameOID.DOMAIN_COMPONENT,
        NameOID.USER_ID,
    }
)
"""The attributes that have a name in RFC 2253; Java writes the others as numbers."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: the whole name."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._expanded_replacement, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)

    def _expanded_replacement(self, match: re.Match[str]) -> str:
        """Java's replacement: $1 is a group, a backslash quotes the next character. A number that
        is no group stays (escapeLiteralBackReferences)."""

        def part(found: re.Match[str]) -> str:
            if found["quoted"]:
                return found["quoted"]
            group = int(found["group"])
            return (match[group] or "") if group <= match.re.groups else found[0]

        return re.sub(r"\\(?P<quoted>.)|\$(?P<group>\d)", part, self.replacement)


class PrincipalMapper:
    """The rules of ssl.principal.mapping.rules."""

    def __init__(self, text: str) -> None:
        """Parse a list of rules (ssl.principal.mapping.rules). Raises SecurityError."""
        self._rules: list[_Rule] = []
        text, place = text.strip(), 0
        while place < len(text):
            found = _RULE.match(text, place)
            end = _SEPARATOR.match(text, found.end()) if found else None
            if found is None or end is None:
                raise SecurityError(
                    f"{_SETTING}: expected DEFAULT or RULE:pattern/replacement/[LU] at "
                    f"`{text[place:]}`"
                )
            self._rules.append(_rule(found))
            place = end.end()

    def principal(self, certificate: bytes | None) -> str:
        """The principal of a certificate in DER; without one, that of an anonymous client. Raises
        LoginRejected if no rule matches."""
        if certificate is None:
            return ANONYMOUS
        name = distinguished_name(load_der_x509_certificate(certificate).subject)
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return f"User:{mapped}"
        raise LoginRejected(f"no rule of {_SETTING} matches the certificate of {name}")


def _rule(found: re.Match[str]) -> _Rule:
    if found["pattern"] is None:
        return _Rule(None)
    try:
        return _Rule(re.compile(found["pattern"]), found["replacement"], found["case"])
    except re.error as error:
        raise SecurityError(f"{_SETTING}: {found[0]}: {error}") from None


def distinguished_name(name: Name) -> str:
    """The name as Java writes it (X500Principal.getName, RFC 2253)."""
    return ",".join(
        "+".join(_attribute_text(attribute) for attribute in part) for part in reversed(name.rdns)
    )


def _attribute_text(attribute: NameAttribute) -> str:  # type: ignore[type-arg]
    if attribute.oid in _JAVAS_NAMES:
        return f"{attribute.rfc4514_attribute_name}={_escaped(str(attribute.value))}"
    return f"{attribute.oid.dotted_string}=#{_value(attribute).hex()}"


def _escaped(value: str) -> str:
    """A value as Java's AVA.toRFC2253String writes it: it escapes more than RFC 2253 asks, and each
    space at either end."""
    text = "".join(f"\\{one}" if one in _ESCAPED else one for one in value)
    text = text.replace("\0", r"\00")
    begin = len(text) - len(text.lstrip(_OUTER))
    end = len(text.rstrip(_OUTER))
    return "".join(one if begin <= place < end else f"\\{one}" for place, one in enumerate(text))


def _value(attribute: NameAttribute) -> bytes:  # type: ignore[type-arg]
    """The encoded value. A name is a sequence of sets of pairs of an identifier and a value."""
    rest = Name([attribute]).public_bytes()
    for _ in range(3):
        rest = rest[_header_bytes(rest) :]
    # The identifier's length always fits in one byte.
    return rest[2 + rest[1] :]


def _header_bytes(encoded: bytes) -> int:
    return 2 if encoded[1] < 0x80 else 2 + (encoded[1] & 0x7F)
