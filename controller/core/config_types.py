"""Configuration values from text and back, as Kafka's ConfigDef converts them.

Error texts are Kafka's, to the letter: parsers raise ValueError with the reason; checks, which take
the name and the value, raise `InvalidConfiguration`.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from math import isinf, isnan
from typing import Any, Final

from controller.core.errors import CoreError
from controller.core.releases import LATEST, Release, release_named

Value = bool | int | float | str | tuple[str, ...]
Parse = Callable[[str], Value]
Check = Callable[[str, Any], None]

LONG_MAX: Final = 2**63 - 1

_BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""The characters that Java's String.trim removes."""
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(
    r"([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?", re.ASCII
)
_BETWEEN_ENTRIES: Final = re.compile(r"\s*,\s*", re.ASCII)
_THROTTLED_REPLICA: Final = re.compile(r"(?:[0-9]+:[0-9]+)?")
_PLAIN_DOUBLES: Final = (1e-3, 1e7)
"""Java writes doubles from the first up to below the second without an exponent."""
_METADATA_VERSIONS: Final = {
    **dict.fromkeys(("0.8.0", "0.8.1", "0.8.2", "0.9.0"), 0),
    **{"0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3},
    **{"1.0": 1, "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1},
    **{"2.7": 3, "2.8": 2, "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3},
    **{"3.7": 5, "3.8": 1, "3.9": 1, "4.0": 2},
}
"""Each release of Kafka that 3.9 knows, and how many versions -IV0, -IV1 ... it has."""
_UNSTABLE: Final = "4.0"
"""A release whose versions are known by their full names only."""


def _full_versions() -> dict[str, str]:
    """The full name of each metadata version by that name, and of the last version of each release
    by the release."""
    found: dict[str, str] = {}
    for release, count in _METADATA_VERSIONS.items():
        names = [f"{release}-IV{number}" for number in range(count)] or [release]
        found |= {name: name for name in names}
        if release != _UNSTABLE:
            found[release] = names[-1]
    return found


_FULL_VERSIONS: Final = _full_versions()


class InvalidConfiguration(CoreError):
    """A configuration has a value that it cannot have; the text is Kafka's."""

    @classmethod
    def of_value(cls, name: str, value: Value, why: str) -> "InvalidConfiguration":
        """The text of Kafka's ConfigException."""
        spelt = f"[{', '.join(value)}]" if isinstance(value, tuple) else to_text(value)
        return cls(f"Invalid value {spelt} for configuration {name}: {why}")


def parse_value(name: str, text: str, parse: Parse, check: Check) -> Value:
    """The value of a text (ConfigDef.parseValue). Raises `InvalidConfiguration`."""
    try:
        value = parse(text.strip(_BLANKS))
    except ValueError as error:
        raise InvalidConfiguration.of_value(name, text, str(error)) from None
    check(name, value)
    return value


def to_text(value: Value) -> str:
    """A value as Kafka shows it (ConfigDef.convertToString)."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _double_text(value)
        case _:
            return str(value)


# Parsers ----------------------------------------------------------------------------------------


def boolean(text: str) -> bool:
    """true or false, in any case."""
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("Expected value to be either true or false")


def int32(text: str) -> int:
    """Kafka's type INT."""
    return _whole_number(text, 32, "INT")


def int64(text: str) -> int:
    """Kafka's type LONG."""
    return _whole_number(text, 64, "LONG")


def double(text: str) -> float:
    """Kafka's type DOUBLE, without the hexadecimal form that Java also reads."""
    found = _DOUBLE.fullmatch(text)
    if not found:
        raise ValueError("Not a number of type DOUBLE")
    return float(found[1])


def string(text: str) -> str:
    """Any text."""
    return text


def string_list(text: str) -> tuple[str, ...]:
    """Entries separated by commas; blanks around a comma are ignored."""
    return tuple(_BETWEEN_ENTRIES.split(text)) if text else ()


def _whole_number(text: str, bits: int, kind: str) -> int:
    problem = f"Not a number of type {kind}"
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(problem)
    try:
        number = int(text)
    except ValueError:  # It has thousands of digits.
        raise ValueError(problem) from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(problem)
    return number


def _double_text(value: float) -> str:
    """The text of a number in the format of Java's Double.toString."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    least, beyond = _PLAIN_DOUBLES
    if not value or least <= abs(value) < beyond:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "it is a number"
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


# Checks -----------------------------------------------------------------------------------------


def anything(name: str, value: Value) -> None:
    """Every value is allowed."""


def at_least(least: int) -> Check:
    """ConfigDef.Range.atLeast."""

    def check(name: str, value: float) -> None:
        if value < least:
            raise InvalidConfiguration.of_value(name, value, f"Value must be at least {least}")

    return check


def between(least: int, most: int) -> Check:
    """ConfigDef.Range.between, both ends allowed."""
    is_enough = at_least(least)

    def check(name: str, value: float) -> None:
        is_enough(name, value)
        if value > most:
            raise InvalidConfiguration.of_value(name, value, f"Value must be no more than {most}")

    return check


def one_of(*allowed: str) -> Check:
    """ConfigDef.ValidString."""

    def check(name: str, value: str) -> None:
        if value not in allowed:
            why = f"String must be one of: {', '.join(allowed)}"
            raise InvalidConfiguration.of_value(name, value, why)

    return check


def each_of(*allowed: str) -> Check:
    """ConfigDef.ValidList."""
    check_entry = one_of(*allowed)

    def check(name: str, value: tuple[str, ...]) -> None:
        for entry in value:
            check_entry(name, entry)

    return check


def gzip_level(name: str, value: int) -> None:
    """CompressionType.GZIP.levelValidator."""
    if not (1 <= value <= 9 or value == -1):
        why = "Value must be between 1 and 9 or equal to -1"
        raise InvalidConfiguration.of_value(name, value, why)


def metadata_version(oldest: Release) -> Check:
    """MetadataVersionValidator of that release. A version of a later release is unknown, though
    some releases know the first version of the next one; `releases.LATEST` knows all versions."""

    def check(name: str, value: str) -> None:
        full = full_version(value)
        if full is None or (release_named(full) > oldest and oldest < LATEST):
            why = f"Version {value} is not a valid version"
            raise InvalidConfiguration.of_value(name, value, why)

    return check


def throttled_replicas(name: str, value: tuple[str, ...]) -> None:
    """ThrottledReplicaListValidator; its text names the configuration twice."""
    entries = [one.strip(_BLANKS) for one in value]
    if not (all(map(_THROTTLED_REPLICA.fullmatch, entries)) or "".join(entries) == "*"):
        why = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise InvalidConfiguration.of_value(name, value, why)


def full_version(text: str) -> str | None:
    """The full name of a metadata version (MetadataVersion.fromVersionString): "2.8-IV1" for "2.8",
    "2.8.1" and "2.8-IV1"; None for anything else."""
    counting = 3 if text.startswith("0.") else 2
    return _FULL_VERSIONS.get(".".join(text.split(".")[:counting]))
