"""Reads Kafka's security keys: TLS and logins to ZooKeeper and to the brokers' listeners."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from controller.api.endpoint_security import EndpointSecurity
from controller.brokers.security import (
    BrokerLogin,
    BrokerSecurity,
    ListenerSecurity,
    UnsecuredToken,
)
from controller.core.configuration import Authorization
from controller.security.errors import SecurityError
from controller.security.jaas import LoginEntry, entry_of, parse_entry, read_sections
from controller.security.passwords import Password
from controller.security.stores import StoreSettings
from controller.security.tls import ReloadedContext, TlsSettings, client_context
from controller.settings import parsing
from controller.settings.security_keys import KAFKAS_OWN, PLUGIN_KEY, PLUGINS, TOKENS
from controller.settings.setting import OWN, of_listener
from controller.settings.sources import RawSetting
from controller.zookeeper.acls import CREATOR_ACLS, OPEN_ACLS
from controller.zookeeper.connection import ZooKeeperSecurity
from controller.zookeeper.digest_md5 import digest_login, login_of, sasl_login
from controller.zookeeper.login import Login

logger = logging.getLogger(__name__)

LOGIN_KEYS: Final = tuple(
    OWN + key
    for key in (
        "login.config",
        "zookeeper.login.section",
        "zookeeper.username",
        "zookeeper.password",
        "zookeeper.auth.scheme",
    )
)
"""The settings of the login to ZooKeeper."""
_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_KAFKA: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "PLAIN": f"{_KAFKA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_KAFKA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_KAFKA}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule",
}
"""The mechanisms of SASL, and Kafka's login module of each."""
_CLAIM: Final = "unsecuredLoginStringClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"


_Read = TypeVar("_Read")


class Security(NamedTuple):
    """How the daemon connects, and who may do what at its endpoint. `endpoint`: the listeners that
    are not in plain text. `authorization`: None if everything is allowed."""

    zookeeper: ZooKeeperSecurity
    brokers: BrokerSecurity
    endpoint: Mapping[str, EndpointSecurity] = {}
    authorization: Authorization | None = None


class SecurityKeys:
    """Keys of one file: with `listener.name.<listener>.` first, if there is a listener, and with
    `refold.` before those without."""

    def __init__(self, file: Iterable[RawSetting], prefix: str, listener: str = "") -> None:
        self._file = {one.key: one for one in file}
        self._prefix = prefix
        self._listener = listener

    def below(self, part: str) -> "SecurityKeys":
        """The keys that begin with the prefix and this part."""
        return SecurityKeys(self._file.values(), self._prefix + part, self._listener)

    def name(self, key: str) -> str:
        """The key as the file has it, or as it should."""
        given = self.find(key)
        return given.key if given else self._prefix + key

    def shown(self, key: str) -> str:
        """Key and value for messages, with references in place of what they lead to."""
        given = self.find(key)
        return f"{self.name(key)}={given.given if given else ''}"

    def shown_or(self, key: str, default: str) -> str:
        """Key and value for messages, with references in place of what they lead to, and Kafka's
        default in place of no value."""
        return self.shown(key) if self.text(key) else f"{self.name(key)}={default}"

    def find(self, key: str) -> RawSetting | None:
        """The setting, which may be empty."""
        whole = self._prefix + key
        for name in (of_listener(self._listener, whole), whole) if self._listener else (whole,):
            for one in (OWN + name, name):
                if one in self._file:
                    return self._file[one]
        return None

    def text(self, key: str) -> str | None:
        """The value; None if it is empty, too."""
        given = self.find(key)
        return given.text if given and given.text else None

    def password(self, key: str) -> Password | None:
        """The value of a key as a password; None if it is not set."""
        text = self.text(key)
        return Password(text) if text is not None else None

    def words(self, key: str) -> tuple[str, ...]:
        """The parts of a comma-separated value."""
        return tuple(one.strip() for one in (self.text(key) or "").split(",") if one.strip())

    def is_true(self, key: str) -> bool:
        """Whether the value is true; no value means false. Raises SecurityError for any other
        value."""
        try:
            return parsing.boolean(self.text(key) or "false")
        except ValueError as error:
            raise SecurityError(f"{self.shown(key)}: must be {error}") from None


def read_security(
    file: Sequence[RawSetting],
    values: Mapping[str, Any],
    listeners: Iterable[str],
    problems: list[str],
) -> Security:
    """The security of ZooKeeper, and of these listeners of brokers. `values`: the settings that are
    parsed by their table. Problems are appended."""
    zookeeper = read_or_report(lambda: zookeeper_security(file, values), problems)
    found = broker_listeners(file, values, listeners, problems)
    return Security(zookeeper or ZooKeeperSecurity(), BrokerSecurity(found))


def broker_listeners(
    file: Sequence[RawSetting],
    values: Mapping[str, Any],
    listeners: Iterable[str],
    problems: list[str],
) -> dict[str, ListenerSecurity]:
    """The security of these listeners of brokers, without those in plain text. Problems are
    appended."""
    found: dict[str, ListenerSecurity] = {}
    protocols: Mapping[str, str] = values["listener.security.protocol.map"]
    for listener in listeners:
        protocol = protocols.get(listener, "PLAINTEXT")
        if protocol != "PLAINTEXT":
            jaas: Path | None = values[OWN + "login.config"]
            read = partial(_of_listener, SecurityKeys(file, "", listener), protocol, listener, jaas)
            if (one := read_or_report(read, problems)) is not None:
                found[listener] = one
    return found


def refused_plugins(file: Iterable[RawSetting]) -> list[str]:
    """One problem for each key that selects a class that refold cannot run."""
    return [
        f"{one.key}={one.given} ({one.source}) is not allowed: {PLUGINS[found[1]]}"
        for one in {one.key: one for one in file}.values()
        if (found := PLUGIN_KEY.fullmatch(one.key)) and one.text and one.text not in KAFKAS_OWN
    ]


def tokens_warnings(file: Iterable[RawSetting]) -> list[str]:
    """A warning for each key that has an effect in a broker only: it enables delegation tokens."""
    return [
        f"{one.key} ({one.source}) has no effect: refold has no delegation tokens, and refuses "
        "clients that log in with one; they use the brokers"
        for one in {one.key: one for one in file if one.key in TOKENS}.values()
    ]


def read_or_report(read: Callable[[], _Read], problems: list[str]) -> _Read | None:
    """The result of `read`, or None if it raises SecurityError. The error is appended to `problems`
    unless they contain it."""
    try:
        return read()
    except SecurityError as error:
        if str(error) not in problems:
            problems.append(str(error))
        return None


def zookeeper_security(file: Sequence[RawSetting], values: Mapping[str, Any]) -> ZooKeeperSecurity:
    """The security of ZooKeeper sessions. Raises SecurityError."""
    keys = SecurityKeys(file, "zookeeper.")
    tls = None
    has_certificate = False
    if keys.is_true("ssl.client.enable"):
        settings = _zookeeper_tls(keys.below("ssl."))
        has_certificate = settings.keystore.is_set
        tls = _context(settings)
    login = _zookeeper_login(values)
    sets_acls = keys.is_true("set.acl")
    if sets_acls and login is None and not has_certificate:
        raise SecurityError(
            f"{keys.shown('set.acl')}: refold needs a login to ZooKeeper, so that its znodes "
            "have an owner: set refold.login.config, refold.zookeeper.username, or "
            "zookeeper.ssl.keystore.location"
        )
    return ZooKeeperSecurity(tls, login, CREATOR_ACLS if sets_acls else OPEN_ACLS)


def _zookeeper_tls(keys: SecurityKeys) -> TlsSettings:
    for key in ("crl.enable", "ocsp.enable"):
        if keys.is_true(key):
            raise SecurityError(
                f"{keys.shown(key)}: refold does not check whether certificates are revoked"
            )
    # Kafka's default is TLSv1.2 alone, which servers from 3.9 on do not accept.
    protocols = keys.words("enabled.protocols") or keys.words("protocol") or _PROTOCOLS
    return read_tls(keys, "zookeeper.ssl", protocols)


def read_tls(keys: SecurityKeys, prefix: str, protocols: tuple[str, ...] = ()) -> TlsSettings:
    """The keys below `ssl.`; `prefix` begins the keys in messages. `protocols`: by default those of
    enabled.protocols. Raises SecurityError."""
    protocols = protocols or keys.words("enabled.protocols") or _PROTOCOLS
    identification = keys.find("endpoint.identification.algorithm")
    algorithm = "https" if identification is None else identification.text.lower()
    if algorithm not in ("https", ""):
        shown = keys.shown("endpoint.identification.algorithm")
        raise SecurityError(f"{shown}: must be https, or empty to check no host names")
    return TlsSettings(
        prefix,
        _store(keys, prefix, "keystore"),
        _store(keys, prefix, "truststore"),
        () if protocols == ("TLS",) else protocols,
        keys.words("cipher.suites"),
        bool(algorithm),
    )


def _store(keys: SecurityKeys, prefix: str, store: str) -> StoreSettings:
    location = keys.text(f"{store}.location")
    is_keystore = store == "keystore"
    return StoreSettings(
        f"{prefix}.{store}",
        Path(location) if location is not None else None,
        keys.text(f"{store}.type") or "JKS",
        keys.password(f"{store}.password"),
        keys.text("keystore.certificate.chain" if is_keystore else "truststore.certificates"),
        keys.password("keystore.key") if is_keystore else None,
        keys.password("key.password") if is_keystore else None,
    )


def _context(settings: TlsSettings) -> ReloadedContext:
    return ReloadedContext(settings, client_context, lambda text: logger.warning("%s", text))


def _zookeeper_login(values: Mapping[str, Any]) -> Login | None:
    file: Path | None = values[OWN + "login.config"]
    user: str | None = values[OWN + "zookeeper.username"]
    password: Password | None = values[OWN + "zookeeper.password"]
    section: str = values[OWN + "zookeeper.login.section"]
    if (user is None) != (password is None):
        raise SecurityError("refold.zookeeper.username and refold.zookeeper.password: set both")
    entry = None
    if file is not None:
        entry = next(iter(read_sections(file, "refold.login.config").get(section, ())), None)
    if user is not None and password is not None:
        if entry is not None:
            raise SecurityError(
                f"refold.zookeeper.username is set, and refold.login.config {file} has a section "
                f"{section}, too: remove one of them"
            )
        is_digest = values[OWN + "zookeeper.auth.scheme"] == "digest"
        return (digest_login if is_digest else sasl_login)(user, password.reveal())
    if entry is None:
        return None
    return login_of(entry, f"refold.login.config {file}, section {section}")


def _of_listener(
    keys: SecurityKeys, protocol: str, listener: str, jaas: Path | None
) -> ListenerSecurity:
    return connection_security(
        protocol,
        keys,
        f"listener {listener}: ssl",
        "sasl.mechanism.inter.broker.protocol",
        lambda mechanism: jaas_entry(keys, listener, mechanism, jaas),
    )


def connection_security(
    protocol: str,
    keys: SecurityKeys,
    tls_prefix: str,
    mechanism_key: str,
    entry_for: Callable[[str], tuple[LoginEntry, str]],
) -> ListenerSecurity:
    """How to connect to a broker by a security protocol. `tls_prefix` begins the keys of TLS in
    messages; `entry_for` returns the login entry for a mechanism, and where it is. Raises
    SecurityError."""
    tls = login = None
    if uses_tls(protocol):
        tls = _context(read_tls(keys.below("ssl."), tls_prefix))
    if uses_sasl(protocol):
        mechanism = read_mechanism(keys, mechanism_key)
        login = _broker_login(mechanism, *entry_for(mechanism))
    return ListenerSecurity(protocol, tls, login)


def uses_tls(protocol: str) -> bool:
    """Whether connections of a security protocol are encrypted: SSL and SASL_SSL."""
    return protocol.endswith("SSL")


def uses_sasl(protocol: str) -> bool:
    """Whether clients log in by a security protocol: SASL_PLAINTEXT and SASL_SSL."""
    return protocol.startswith("SASL")


def read_mechanism(keys: SecurityKeys, key: str) -> str:
    """The SASL mechanism. Raises SecurityError for one that refold does not have."""
    mechanism = (keys.text(key) or "GSSAPI").upper()
    if mechanism not in _MODULES:
        raise SecurityError(
            f"{keys.shown_or(key, 'GSSAPI')}: refold does not support it, only "
            f"{', '.join(_MODULES)}; there is no Kerberos (GSSAPI)"
        )
    return mechanism


def _broker_login(mechanism: str, entry: LoginEntry, setting: str) -> BrokerLogin:
    """The login of a JAAS entry. Raises SecurityError, which names `setting`."""
    require_module(mechanism, entry, setting)
    if mechanism == "OAUTHBEARER":
        return BrokerLogin(mechanism, token=_token(entry, setting))
    if entry.options.get("tokenauth", "false").lower() == "true":
        raise SecurityError(f"{setting}: tokenauth: refold has no delegation tokens")
    user, password = entry.credentials(setting)
    return BrokerLogin(mechanism, user, Password(password))


def require_module(mechanism: str, entry: LoginEntry, setting: str) -> None:
    """Refuse a JAAS entry that has another login module than Kafka's: it could mean something else
    by the same options. Raises SecurityError, which names `setting`."""
    if entry.module != _MODULES[mechanism]:
        raise SecurityError(
            f"{setting}: refold does not support {entry.module} with {mechanism}, only "
            f"{_MODULES[mechanism]}"
        )


def jaas_entry(
    keys: SecurityKeys, listener: str, mechanism: str, jaas: Path | None
) -> tuple[LoginEntry, str]:
    """The login entry of a listener for a mechanism, and where it is: in the file of settings,
    otherwise in the JAAS file (JaasContext.loadServerContext). Raises SecurityError."""
    key = f"{mechanism.lower()}.sasl.jaas.config"
    text = keys.text(key)
    if text is not None:
        setting = keys.name(key)
        return parse_entry(text, setting), setting
    sections = {} if jaas is None else read_sections(jaas, "refold.login.config")
    for section in (f"{listener.lower()}.KafkaServer", "KafkaServer"):
        if section in sections:
            entry = entry_of(sections[section], _MODULES[mechanism])
            return entry, f"refold.login.config {jaas}, section {section}"
    raise SecurityError(
        f"{of_listener(listener, key)} is not set: refold needs a login to brokers"
        f"{', and the users who may log in to its endpoint' if mechanism == 'PLAIN' else ''}"
    )


def _token(entry: LoginEntry, setting: str) -> UnsecuredToken:
    claims: dict[str, object] = {
        key.removeprefix(_CLAIM): text
        for key, text in entry.options.items()
        if key.startswith(_CLAIM)
    }
    if "sub" not in claims:
        raise SecurityError(
            f"{setting}: needs {_CLAIM}sub: refold does not ask a token endpoint, it makes Kafka's "
            "unsecured tokens only"
        )
    try:
        lifetime_s = int(entry.options.get(_LIFETIME, "3600"))
    except ValueError:
        raise SecurityError(f"{setting}: {_LIFETIME} must be a whole number") from None
    return UnsecuredToken(claims, lifetime_s)
