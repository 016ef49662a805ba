"""Versions of the code: found on the driver, shipped to executors as archives."""

import shutil
import sys
import zipfile
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from msgspec import Struct, structs
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from replay.diff.processes import VersionProcess
from replay.diff.references import Version, cache_folder, find_version
from replay.fleet.errors import FleetError
from replay.fleet.session import files_of, package

_PACKAGES: Final = ("controller", "eventstore", "replay", "*.dist-info")
_DIGEST_BYTES: Final = 8


class ShippedVersion(Struct, frozen=True):
    """A version as executors know it. `code` identifies its code, whatever its name; `core` is the
    fingerprint of its core; `python` is None for the executor's Python."""

    reference: str
    code: str
    core: str
    code_version: str
    python: str | None

    def on_this_executor(self) -> Version:
        """The version on this executor. Raises FleetError."""
        python = self.python or sys.executable
        if not Path(python).is_file():
            raise FleetError(
                f"{self.reference} requires other packages than this version, and there is no"
                f" {python} on this executor: install it at the same path there"
            )
        folder = Path(SparkFiles.getRootDirectory(), _archive_name(self.code))
        return Version(self.reference, folder, python)


def find_versions(references: Sequence[str]) -> list[Version]:
    """Find the named versions as `refold diff` does. Raises DiffError, FleetError."""
    named = list(dict.fromkeys(one.strip() for one in references if one.strip()))
    if not named:
        raise FleetError("--versions is empty: name git refs, wheels, folders or working-tree")
    return [find_version(one, Path(), cache_folder()) for one in named]


def ship(spark: SparkSession, versions: Sequence[Version], scratch: Path) -> list[ShippedVersion]:
    """Check that each version starts, and ship its code to all executors; equal code only once.
    Raises DiffError."""
    shipped: dict[str, ShippedVersion] = {}
    for number, version in enumerate(versions):
        with VersionProcess(version) as process:
            hello = process.hello
        archive = _write_archive(version, scratch / f"{number}.zip")
        code = _digest(archive)
        before = shipped.get(code)
        if before is not None:
            both = f"{before.reference} = {version.reference}"
            shipped[code] = structs.replace(before, reference=both)
            continue
        python = None if version.python == sys.executable else version.python
        shipped[code] = ShippedVersion(
            version.reference, code, hello.core_fingerprint, hello.code_version, python
        )
        named = shutil.move(archive, scratch / f"{_archive_name(code)}.zip")
        spark.sparkContext.addArchive(f"{named}#{_archive_name(code)}")
    return list(shipped.values())


def _archive_name(code: str) -> str:
    return f"version-{code}"


def _write_archive(version: Version, target: Path) -> Path:
    folder = version.folder
    if folder is None:
        return package(target)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _PACKAGES:
            for root in folder.glob(name):
                for file in files_of(root):
                    archive.write(file, file.relative_to(folder))
    return target


def _digest(archive: Path) -> str:
    """A digest of the archive's content, without timestamps."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    with zipfile.ZipFile(archive) as files:
        for name in sorted(files.namelist()):
            if ".dist-info/" not in name:
                digest.update(f"{name}\0{len(content := files.read(name))}\0".encode() + content)
    return digest.hexdigest()
