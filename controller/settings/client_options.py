"""Reads a file of Kafka client settings, as Kafka's own tools accept it, for aiokafka's client."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controller.core.znodes.brokers import SECURITY_PROTOCOLS
from controller.security.errors import SecurityError
from controller.security.jaas import parse_entry
from controller.settings.errors import SettingsError
from controller.settings.security import SecurityKeys, connection_security, refused_plugins
from controller.settings.sources import RawSetting, from_file

_JAAS = "sasl.jaas.config"


def client_options(file: Path | None, option: str) -> dict[str, Any]:
    """Arguments for aiokafka's client. Raises SettingsError for unsupported settings; it names
    the option that named the file."""
    if file is None:
        return {}
    given = from_file(file, option)
    if refused := refused_plugins(given):
        raise SettingsError([f"{option} {file}: {one}" for one in refused])
    try:
        return _options(given)
    except (SecurityError, ValueError) as error:
        raise SettingsError([f"{option} {file}: {error}"]) from None


def _options(given: Sequence[RawSetting]) -> dict[str, Any]:
    keys = SecurityKeys(given, "")
    protocol = (keys.text("security.protocol") or "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        allowed = ", ".join(SECURITY_PROTOCOLS)
        raise ValueError(f"security.protocol {protocol!r} must be one of {allowed}")
    security = connection_security(
        protocol,
        keys,
        "ssl",
        "sasl.mechanism",
        lambda _: (parse_entry(keys.text(_JAAS) or "", _JAAS), _JAAS),
    )
    options = security.arguments()
    if security.tls is not None:
        # A client may run for long, such as the mirror's: certificates are read again for it.
        options["ssl_context"] = security.tls.delegate()
    if client_id := keys.text("client.id"):
        options["client_id"] = client_id
    if timeout_ms := keys.text("request.timeout.ms"):
        options["request_timeout_ms"] = int(timeout_ms)
    return options
