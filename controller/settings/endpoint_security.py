"""Reads Kafka's security keys for the listeners of the endpoint, and of its authorizer."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from controller.api.endpoint_security import EndpointSecurity
from controller.core.configuration import Authorization
from controller.security.errors import SecurityError
from controller.security.jaas import LoginEntry
from controller.security.oauthbearer import OAUTHBEARER, TokenRules
from controller.security.passwords import Password
from controller.security.principals import PrincipalMapper
from controller.security.scram import HASHES
from controller.security.tls import TlsSettings, server_context
from controller.settings import parsing
from controller.settings.security import (
    Security,
    SecurityKeys,
    jaas_entry,
    read_mechanism,
    read_or_report,
    read_tls,
    require_module,
    uses_sasl,
    uses_tls,
)
from controller.settings.setting import OF_LISTENER, OWN
from controller.settings.sources import RawSetting
from controller.settings.table import AUTHORIZER

_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_PLAIN: Final = "PLAIN"
_MECHANISMS: Final = (_PLAIN, *HASHES, OAUTHBEARER)
_USER: Final = "user_"
_VALIDATOR: Final = "unsecuredValidator"
_CLIENT_AUTH: Final = ("none", "requested", "required")


def with_endpoint(
    security: Security,
    file: Sequence[RawSetting],
    values: Mapping[str, Any],
    inter_broker_listener: str,
    problems: list[str],
) -> Security:
    """Return the security settings with those of the daemon's listeners. Problems are appended."""
    protocols: Mapping[str, str] = values["listener.security.protocol.map"]
    found: dict[str, EndpointSecurity] = {}
    for address in values["listeners"]:
        protocol = protocols.get(address.listener, "PLAINTEXT")
        if protocol != "PLAINTEXT":
            keys = SecurityKeys(file, "", address.listener)
            read = partial(
                _of_listener, keys, protocol, address.listener, values[OWN + "login.config"]
            )
            if (one := read_or_report(read, problems)) is not None:
                found[address.listener] = one
                if one.mechanisms and address.listener == inter_broker_listener:
                    read_or_report(partial(_check_inter_broker, keys, one.mechanisms), problems)
    return security._replace(endpoint=found)


def read_authorization(file: Sequence[RawSetting], problems: list[str]) -> Authorization | None:
    """The settings of the authorizer; None if there is no authorizer. Problems are appended."""
    return read_or_report(lambda: _authorization(SecurityKeys(file, "")), problems)


def unsigned_tokens_warnings(security: Security) -> list[str]:
    """A warning for each listener with an authorizer where a client may claim any name."""
    return [
        f"listener {name}: nothing signs the tokens of OAUTHBEARER, so that every client with a "
        "connection may be a super user: enable other mechanisms (sasl.enabled.mechanisms), or "
        "require client certificates (ssl.client.auth=required)"
        for name, one in security.endpoint.items()
        if security.authorization is not None
        and OAUTHBEARER in one.mechanisms
        and (one.tls is None or one.tls.client_auth != "required")
    ]


def _of_listener(
    keys: SecurityKeys, protocol: str, listener: str, jaas: Path | None
) -> EndpointSecurity:
    is_sasl = uses_sasl(protocol)
    tls = None
    if uses_tls(protocol):
        tls = _tls(keys, listener, is_sasl)
        server_context(tls)
    rules = keys.text("ssl.principal.mapping.rules") or "DEFAULT"
    PrincipalMapper(rules)
    mechanisms = _mechanisms(keys) if is_sasl else ()
    users: dict[str, Password] = {}
    if _PLAIN in mechanisms:
        entry, setting = jaas_entry(keys, listener, _PLAIN, jaas)
        require_module(_PLAIN, entry, setting)
        users = {
            option.removeprefix(_USER): Password(password)
            for option, password in entry.options.items()
            if option.startswith(_USER)
        }
    rules_of_tokens = TokenRules()
    if OAUTHBEARER in mechanisms:
        entry, setting = jaas_entry(keys, listener, OAUTHBEARER, jaas)
        require_module(OAUTHBEARER, entry, setting)
        rules_of_tokens = _token_rules(entry, setting)
    return EndpointSecurity(
        tls=tls,
        mechanisms=mechanisms,
        users=users,
        token_rules=rules_of_tokens,
        principal_rules=rules,
        receive_bytes_max=_number(keys, "sasl.server.max.receive.size", 524_288),
        session_ms={one: _session_ms(keys, one) for one in mechanisms},
        failure_delay_ms=_number(keys, "connection.failed.authentication.delay.ms", 100),
    )


def _token_rules(entry: LoginEntry, setting: str) -> TokenRules:
    """The options of Kafka's OAuthBearerUnsecuredValidatorCallbackHandler."""
    options = entry.options
    skew = options.get(f"{_VALIDATOR}AllowableClockSkewMs", "").strip() or "0"
    try:
        skew_ms = parsing.whole_number(0)(skew)
    except ValueError as error:
        option = f"{_VALIDATOR}AllowableClockSkewMs"
        raise SecurityError(f"{setting}: {option}: must be {error}") from None
    return TokenRules(
        principal_claim=options.get(f"{_VALIDATOR}PrincipalClaimName", "").strip() or "sub",
        scope_claim=options.get(f"{_VALIDATOR}ScopeClaimName", "").strip() or "scope",
        required_scope=tuple(options.get(f"{_VALIDATOR}RequiredScope", "").split()),
        clock_skew_ms=skew_ms,
    )


def _tls(keys: SecurityKeys, listener: str, is_sasl: bool) -> TlsSettings:
    key = "ssl.client.auth"
    given = keys.find(key)
    is_of_listener = given is not None and given.key.removeprefix(OWN).startswith(OF_LISTENER)
    client_auth = (keys.text(key) or "none").lower()
    if client_auth not in _CLIENT_AUTH:
        raise SecurityError(f"{keys.shown(key)}: must be one of {', '.join(_CLIENT_AUTH)}")
    if is_sasl and not is_of_listener:
        # The login says who the client is (ChannelBuilders.channelBuilderConfigs).
        client_auth = "none"
    tls = read_tls(keys.below("ssl."), f"listener {listener}: ssl")
    return tls._replace(client_auth=client_auth)


def _mechanisms(keys: SecurityKeys) -> tuple[str, ...]:
    key = "sasl.enabled.mechanisms"
    mechanisms = keys.words(key) or ("GSSAPI",)
    unsupported = [one for one in mechanisms if one not in _MECHANISMS]
    if unsupported:
        raise SecurityError(
            f"{keys.shown_or(key, 'GSSAPI')}: refold's endpoint does not support "
            f"{', '.join(unsupported)}, only {', '.join(_MECHANISMS)}; set "
            "refold.sasl.enabled.mechanisms for refold alone"
        )
    return mechanisms


def _check_inter_broker(keys: SecurityKeys, enabled: tuple[str, ...]) -> None:
    """Brokers log in with their mechanism (KafkaConfig.validateValues)."""
    key = "sasl.mechanism.inter.broker.protocol"
    if read_mechanism(keys, key) not in enabled:
        raise SecurityError(
            f"{keys.shown(key)}: must be included in {keys.shown('sasl.enabled.mechanisms')}: "
            "otherwise brokers cannot log in to refold"
        )


def _session_ms(keys: SecurityKeys, mechanism: str) -> int:
    """A mechanism may have a separate limit (SaslChannelBuilder)."""
    key = "connections.max.reauth.ms"
    of_mechanism = f"{mechanism.lower()}.{key}"
    is_separate = keys.text(of_mechanism) is not None
    return _number(keys, of_mechanism if is_separate else key, 0, 2**63 - 1)


def _number(keys: SecurityKeys, key: str, default: int, most: int = 2**31 - 1) -> int:
    text = keys.text(key)
    try:
        return default if text is None else parsing.whole_number(0, most)(text)
    except ValueError as error:
        raise SecurityError(f"{keys.shown(key)}: must be {error}") from None


def _authorization(keys: SecurityKeys) -> Authorization | None:
    """The settings of AclAuthorizer, if it is selected."""
    selected = (keys.text(AUTHORIZER) or "").strip()
    if not selected:
        return None
    if selected != _AUTHORIZER:
        raise SecurityError(
            f"{keys.shown(AUTHORIZER)} is not allowed: it is a plugin that refold cannot apply, so "
            "that its endpoint would allow what the plugin forbids; refold knows "
            f"{_AUTHORIZER}"
        )
    if keys.text("authorizer.zookeeper.url"):
        shown = keys.shown("authorizer.zookeeper.url")
        raise SecurityError(
            f"{shown} is not allowed: refold reads ACLs from zookeeper.connect only"
        )
    key = "super.users"
    users = [one.strip() for one in (keys.text(key) or "").split(";") if one.strip()]
    if any(not kind or not colon for kind, colon, _ in (one.partition(":") for one in users)):
        raise SecurityError(f"{keys.shown(key)}: must be principals such as User:a;User:b")
    allows = keys.is_true("allow.everyone.if.no.acl.found")
    return Authorization(super_users=tuple(users), allows_without_acl=allows)
