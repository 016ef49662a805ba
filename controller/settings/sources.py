"""Sources of settings: command line, environment, TOML files and server.properties."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import javaproperties

from controller.settings.config_providers import ConfigProviders
from controller.settings.errors import SettingsError
from controller.settings.setting import OWN
from controller.settings.table import SETTINGS


class RawSetting(NamedTuple):
    """A setting as text, and where it was set. `given` is the text for messages, with the
    references to config providers instead of their values."""

    key: str
    text: str
    source: str
    reference: str = ""

    @property
    def given(self) -> str:
        """The text for messages: a reference instead of its value."""
        return self.reference or self.text


def from_environment(environment: Mapping[str, str]) -> Iterator[RawSetting]:
    """Settings from environment variables: REFOLD_ and the key in capitals without `refold.`,
    with _ for dots and dashes."""
    for setting in SETTINGS:
        if setting.variable in environment:
            yield RawSetting(setting.key, environment[setting.variable], setting.variable)


def from_file(file: Path, option: str = "--config") -> list[RawSetting]:
    """Settings from a file: TOML if its name ends in .toml, otherwise Java properties in
    ISO-8859-1, as in Kafka (java.util.Properties.load). References to config providers are
    resolved. Raises SettingsError, which names the option that named the file."""
    return _resolved(_from_file(file, option), file)


def _resolved(raw: list[RawSetting], file: Path) -> list[RawSetting]:
    try:
        providers = ConfigProviders({one.key: one.text for one in raw})
    except ValueError as error:
        raise SettingsError([f"{error} ({file})"]) from None
    found, problems = [], []
    for one in raw:
        try:
            text = providers.resolved(one.text)
        except ValueError as error:
            problems.append(f"{one.key} ({one.source}): {error}")
            continue
        found.append(one if text == one.text else one._replace(text=text, reference=one.text))
    if problems:
        raise SettingsError(problems)
    return found


def _from_file(file: Path, option: str) -> list[RawSetting]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise SettingsError([f"{option} {file}: cannot be read: {error.strerror}"]) from None
    try:
        if is_toml(file):
            return list(_flattened_settings(tomllib.loads(content.decode()), "", str(file)))
        return list(_properties(content.decode("iso-8859-1"), file))
    except UnicodeDecodeError:
        raise SettingsError([f"{option} {file}: is not UTF-8 text"]) from None
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise SettingsError([f"{option} {file}: cannot be read: {error}"]) from None


def is_toml(file: Path) -> bool:
    """Whether a file is refold's; all others are a broker's."""
    return file.suffix == ".toml"


def _properties(content: str, file: Path) -> Iterator[RawSetting]:
    line = 1
    for element in javaproperties.parse(content):
        if isinstance(element, javaproperties.KeyValue):
            yield RawSetting(element.key, element.value.strip(), f"{file}:{line}")
        line += element.source.count("\n")


def _flattened_settings(table: Mapping[str, Any], prefix: str, source: str) -> Iterator[RawSetting]:
    """Flatten nested tables to dotted keys, which mean the same."""
    for name, value in table.items():
        key = prefix + name
        match value:
            case dict():
                yield from _flattened_settings(value, key + ".", source)
            case bool():
                yield RawSetting(key, str(value).lower(), source)
            case int() | str():
                yield RawSetting(key, str(value).strip(), source)
            case list() if all(isinstance(one, str) for one in value):
                yield RawSetting(key, ",".join(value), source)
            case _:
                raise ValueError(f"{key} must be text, a whole number, true, false or a list")


def effective_setting(key: str, layers: list[list[RawSetting]]) -> RawSetting | None:
    """The value in effect for a key: from the first layer that has it; the key with `refold.`
    takes precedence."""
    own = key if key.startswith(OWN) else OWN + key
    for layer in layers:
        given = {one.key: one for one in layer}
        for found in (given.get(own), given.get(key)):
            if found and found.text:
                return found
    return None
