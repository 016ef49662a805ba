"""The fingerprint of the core: a digest of its source, so that a log names the rules that
decided it."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def core_fingerprint() -> str:
    """A hex digest of all source files of controller.core. It is the same on every machine."""
    return _digest("controller.core")


@cache
def broker_fingerprint() -> str:
    """A hex digest of the source files by which a broker of the 0.8 design decides: those of
    controller.kafka_0_8, and of controller.core, on which it is built."""
    return _digest("controller.core", "controller.kafka_0_8")


@cache
def source_fingerprint(*packages: str) -> str:
    """A hex digest of all source files of packages: the code that made a cached file."""
    return _digest(*packages)


def _digest(*packages: str) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for package in packages:
        for name, source in _sources(files(package), ""):
            digest.update(name.encode() + b"\0")
            digest.update(source.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()


def code_version() -> str:
    """The version of the installed package; "unknown" in a plain checkout."""
    try:
        return version("refold")
    except PackageNotFoundError:
        return "unknown"


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            found += _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            found.append((prefix + entry.name, entry))
    return found
