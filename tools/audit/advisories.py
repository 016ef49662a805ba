"""Advisories about locked packages, of a package index or of a folder."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import yaml
from packaging.version import InvalidVersion, Version

_LOCKED: Final = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)", re.MULTILINE)
_SEPARATORS: Final = re.compile(r"[-_.]+")


class AuditError(Exception):
    """The advisories cannot be read. The text is one line."""


class Package(NamedTuple):
    """A package of the lock file, with the name as the index spells it."""

    name: str
    version: str


class Advisory(NamedTuple):
    """A vulnerability of a locked package. `fixed` has the versions without it."""

    package: Package
    id: str
    fixed: tuple[str, ...]


class Audit(NamedTuple):
    """The advisories that affect locked packages. `compared` are the packages about which the
    source was asked with success."""

    source: str
    compared: frozenset[Package]
    found: tuple[Advisory, ...]


def locked(lock: Path) -> list[Package]:
    """The packages of a lock file of `uv pip compile`."""
    names = _LOCKED.findall(lock.read_text(encoding="utf-8"))
    return sorted({Package(_normal(name), version) for name, version in names})


def ask_index(lock: Path, program: Path) -> Audit:
    """Ask the package index, by pip-audit. Raises AuditError."""
    command = [program, "--requirement", lock, "--require-hashes", "--disable-pip"]
    done = subprocess.run(
        [*map(str, command), "--format", "json", "--progress-spinner", "off"],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        answers = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = [f"exit status {done.returncode}", *done.stderr.strip().splitlines()][-1]
        raise AuditError(f"pip-audit: {last}") from None
    # pip-audit skips packages about which the index does not answer, and ends with status 0.
    asked = [one for one in answers if "skip_reason" not in one]
    compared = {Package(_normal(one["name"]), one["version"]) for one in asked}
    found = [
        Advisory(
            Package(_normal(one["name"]), one["version"]), vuln["id"], (*vuln["fix_versions"],)
        )
        for one in asked
        for vuln in one["vulns"]
    ]
    return Audit("the package index", frozenset(compared), tuple(sorted(found)))


def read_folder(packages: Sequence[Package], folder: Path) -> Audit:
    """Compare with a copy of https://github.com/pypa/advisory-database. Raises AuditError."""
    vulns = folder / "vulns"
    if not vulns.is_dir():
        raise AuditError(f"{folder} has no folder vulns, so it is no advisory database")
    found: list[Advisory] = []
    latest = ""
    for package in packages:
        for file in sorted((vulns / package.name).glob("*.yaml")):
            advisory = yaml.safe_load(file.read_text(encoding="utf-8"))
            latest = max(latest, str(advisory.get("modified", "")))
            if "withdrawn" not in advisory:
                found += _advisories_affecting(package, advisory)
    source = f"{folder} (advisories about these packages up to {latest[:10] or 'no date'})"
    return Audit(source, frozenset(packages), tuple(sorted(found)))


def _advisories_affecting(package: Package, advisory: dict[str, object]) -> Iterator[Advisory]:
    affected = advisory.get("affected")
    for one in affected if isinstance(affected, list) else []:
        if _normal(one["package"]["name"]) != package.name:
            continue
        fixed: list[str] = []
        is_affected = package.version in map(str, one.get("versions", ()))
        for ranges in one.get("ranges", ()):
            if ranges["type"] == "ECOSYSTEM":
                is_affected |= _is_in(package.version, ranges["events"])
                fixed += [str(event["fixed"]) for event in ranges["events"] if "fixed" in event]
        if is_affected:
            yield Advisory(package, str(advisory["id"]), tuple(fixed))


def _is_in(version: str, events: Sequence[dict[str, object]]) -> bool:
    """Whether a version is in a range of OSV, whose events are in the order of versions."""
    is_in = False
    try:
        asked = Version(version)
        for event in events:
            if "introduced" in event and asked >= Version(str(event["introduced"])):
                is_in = True
            if "fixed" in event and asked >= Version(str(event["fixed"])):
                is_in = False
            if "last_affected" in event and asked > Version(str(event["last_affected"])):
                is_in = False
    except InvalidVersion as error:
        sys.stderr.write(f"audit: {error}\n")
        return True
    return is_in


def _normal(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()
