"""Resolves Kafka's config providers: values such as `${file:/etc/kafka/secrets:password}`.

As in Kafka, a reference counts only if `config.providers` names its provider. Unlike Kafka, a
reference that leads nowhere is an error: a password would be the text of the reference.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import javaproperties

_PROVIDERS: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Lookup = Callable[[str, str], str]
"""The value of a key at a path. Raises ValueError with the reason."""


class ConfigProviders:
    """The providers of one file. `of` is the file's text by key."""

    def __init__(self, of: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> None:
        """Create the providers that `config.providers` names. Raises ValueError for one that refold
        does not have."""
        self._lookups: dict[str, Lookup] = {}
        for name in filter(None, (one.strip() for one in of.get(_PROVIDERS, "").split(","))):
            key = f"{_PROVIDERS}.{name}.class"
            kind = of.get(key, "").removeprefix(_PACKAGE)
            prefix = f"{_PROVIDERS}.{name}.param."
            if kind == "FileConfigProvider":
                self._lookups[name] = _file(_folders(of.get(prefix + "allowed.paths", "")))
            elif kind == "DirectoryConfigProvider":
                self._lookups[name] = _directory(_folders(of.get(prefix + "allowed.paths", "")))
            elif kind == "EnvVarConfigProvider":
                allowed = of.get(prefix + "allowlist.pattern", ".*")
                try:
                    self._lookups[name] = _environment(environment, re.compile(allowed))
                except re.error as error:
                    raise ValueError(f"{prefix}allowlist.pattern={allowed}: {error}") from None
            else:
                raise ValueError(
                    f"{key}={of.get(key, '')}: refold has Kafka's FileConfigProvider, "
                    "DirectoryConfigProvider and EnvVarConfigProvider, and cannot run other classes"
                )

    def resolved(self, text: str) -> str:
        """The text with the values of its references. Raises ValueError, which names the
        reference."""

        def value(match: re.Match[str]) -> str:
            lookup = self._lookups.get(match[1])
            if lookup is None:
                return match[0]
            try:
                return lookup(match[2] or "", match[3])
            except ValueError as error:
                raise ValueError(f"{match[0]} {error}") from None

        # Kafka takes no spaces at the ends of a value (ConfigDef.parseType), nor a file's last line
        # break.
        return _REFERENCE.sub(value, text).strip() if self._lookups else text


def is_of_providers(key: str) -> bool:
    """Whether a key configures a provider: their names, and so their keys, are the operator's."""
    return key == _PROVIDERS or key.startswith(_PROVIDERS + ".")


def _folders(text: str) -> Sequence[Path]:
    return [Path(one.strip()).absolute() for one in text.split(",") if one.strip()]


def _file(allowed: Sequence[Path]) -> Lookup:
    def lookup(path: str, key: str) -> str:
        content = javaproperties.loads(_read_allowed_file(Path(path), allowed).decode("iso-8859-1"))
        if key not in content:
            raise ValueError("cannot be resolved: the file has no such key")
        return str(content[key])

    return lookup


def _directory(allowed: Sequence[Path]) -> Lookup:
    def lookup(path: str, key: str) -> str:
        if Path(key).name != key:
            raise ValueError("cannot be resolved: the key must be the name of a file")
        return _read_allowed_file(Path(path, key), allowed).decode(errors="replace")

    return lookup


def _environment(environment: Mapping[str, str], allowed: re.Pattern[str]) -> Lookup:
    def lookup(path: str, key: str) -> str:
        if path:
            raise ValueError("cannot be resolved: an environment variable has no path")
        if not allowed.fullmatch(key):
            raise ValueError("cannot be resolved: allowlist.pattern does not allow it")
        if key not in environment:
            raise ValueError("cannot be resolved: there is no such environment variable")
        return environment[key]

    return lookup


def _read_allowed_file(path: Path, allowed: Sequence[Path]) -> bytes:
    """The content of a file below an allowed path; symbolic links and .. are followed first."""
    try:
        real = path.resolve(strict=True)
        if allowed and not any(real.is_relative_to(one.resolve()) for one in allowed):
            raise ValueError("cannot be resolved: allowed.paths does not allow the file")
        return real.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be resolved: {error.strerror}") from None
