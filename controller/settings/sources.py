"""Where settings come from: command line, environment, a TOML file or a server.properties."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import javaproperties

from controller.settings.errors import SettingsError
from controller.settings.table import OWN, SETTINGS


class RawSetting(NamedTuple):
    """A setting as somebody gave it. `source` says where, for people."""

    key: str
    text: str
    source: str


def from_environment(environment: Mapping[str, str]) -> Iterator[RawSetting]:
    """REFOLD_ and the key in capitals, with _ for each dot and dash, without `refold.`."""
    for setting in SETTINGS:
        if setting.variable in environment:
            yield RawSetting(setting.key, environment[setting.variable], setting.variable)


def from_file(file: Path) -> list[RawSetting]:
    """What a file gives: TOML if its name ends so, else Java properties, which are in ISO-8859-1
    for Kafka (java.util.Properties.load). Raises SettingsError."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise SettingsError([f"--config {file}: cannot be read: {error.strerror}"]) from None
    try:
        if is_toml(file):
            return list(_flattened(tomllib.loads(content.decode()), "", str(file)))
        return list(_properties(content.decode("iso-8859-1"), file))
    except UnicodeDecodeError:
        raise SettingsError([f"--config {file}: is not text in UTF-8"]) from None
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise SettingsError([f"--config {file}: cannot be read: {error}"]) from None


def is_toml(file: Path) -> bool:
    """Whether a file is refold's own; any other is a broker's."""
    return file.suffix == ".toml"


def _properties(content: str, file: Path) -> Iterator[RawSetting]:
    line = 1
    for element in javaproperties.parse(content):
        if isinstance(element, javaproperties.KeyValue):
            yield RawSetting(element.key, element.value.strip(), f"{file}:{line}")
        line += element.source.count("\n")


def _flattened(table: Mapping[str, Any], prefix: str, source: str) -> Iterator[RawSetting]:
    """Dotted keys and nested tables mean the same."""
    for name, value in table.items():
        key = prefix + name
        match value:
            case dict():
                yield from _flattened(value, key + ".", source)
            case bool():
                yield RawSetting(key, str(value).lower(), source)
            case int() | str():
                yield RawSetting(key, str(value).strip(), source)
            case list() if all(isinstance(one, str) for one in value):
                yield RawSetting(key, ",".join(value), source)
            case _:
                raise ValueError(f"{key} must be text, a whole number, true, false or a list")


def effective_setting(key: str, layers: list[list[RawSetting]]) -> RawSetting | None:
    """What counts for a key: the first layer that gives it; the daemon's own goes before."""
    own = key if key.startswith(OWN) else OWN + key
    for layer in layers:
        given = {one.key: one for one in layer}
        for found in (given.get(own), given.get(key)):
            if found and found.text:
                return found
    return None
