"""Reads a file of Kafka client settings, as Kafka's own tools accept it, for aiokafka's client."""

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aiokafka.helpers import create_ssl_context

from controller.settings.errors import SettingsError
from controller.settings.sources import from_file

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN: Final = re.compile(r"""(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def client_options(file: Path | None, option: str) -> dict[str, Any]:
    """Arguments for aiokafka's client. Raises SettingsError for unsupported settings; it names
    the option that named the file."""
    if file is None:
        return {}
    try:
        given = {one.key: one.text for one in from_file(file)}
    except SettingsError as error:
        raise SettingsError([one.replace("--config", option) for one in error.problems]) from None
    try:
        return _options(given)
    except (OSError, ValueError) as error:
        raise SettingsError([f"{option} {file}: {error}"]) from None


def _options(given: Mapping[str, str]) -> dict[str, Any]:
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ValueError(f"security.protocol {protocol!r} must be one of {', '.join(_PROTOCOLS)}")
    options: dict[str, Any] = {"security_protocol": protocol}
    if "client.id" in given:
        options["client_id"] = given["client.id"]
    if "request.timeout.ms" in given:
        options["request_timeout_ms"] = int(given["request.timeout.ms"])
    if protocol.endswith("SSL"):
        options["ssl_context"] = _tls(given)
    if protocol.startswith("SASL"):
        options |= _login(given)
    return options


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    for store in ("truststore", "keystore"):
        kind = given.get(f"ssl.{store}.type", "JKS")
        if f"ssl.{store}.location" in given and kind.upper() != "PEM":
            raise ValueError(f"ssl.{store}.type is {kind}: only PEM files are supported")
    key_file = given.get("ssl.keystore.location")
    context: ssl.SSLContext = create_ssl_context(
        cafile=given.get("ssl.truststore.location"),
        cadata=given.get("ssl.truststore.certificates"),
        certfile=key_file,
        keyfile=key_file,
        password=given.get("ssl.key.password"),
    )
    if given.get("ssl.endpoint.identification.algorithm") == "":
        context.check_hostname = False
    return context


def _login(given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in _MECHANISMS:
        raise ValueError(f"sasl.mechanism {mechanism} must be one of {', '.join(_MECHANISMS)}")
    found = _LOGIN.findall(given.get("sasl.jaas.config", ""))
    login = {name: double or single for name, double, single in found}
    if len(login) < 2:
        raise ValueError("sasl.jaas.config must have a username and a password")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": login["username"],
        "sasl_plain_password": login["password"],
    }
