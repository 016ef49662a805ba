"""Finds a version of the code: a git ref, the working tree, a folder, a wheel, the installation.

A version runs from its own files in a separate process. It uses the Python and the packages of this
installation if it requires the same packages. Otherwise a virtual environment is made for it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from email.parser import HeaderParser
from importlib.metadata import PackageNotFoundError, requires
from io import BytesIO
from pathlib import Path
from typing import Final

from msgspec import Struct

from eventstore.folders import make_private
from replay.errors import DiffError

INSTALLED: Final = "installed"
WORKING_TREE: Final = "working-tree"

_PACKAGES: Final = ("controller", "eventstore", "replay", "pyproject.toml")
_PROTOCOL: Final = Path("replay", "diff", "protocol.py")


class Version(Struct, frozen=True):
    """A version: the given reference, the folder of its code (None: as installed), and the Python
    that runs it."""

    reference: str
    folder: Path | None
    python: str


def find_version(reference: str, repository: Path, cache: Path) -> Version:
    """The version with a reference. Its code is stored in `cache` if it is not in a folder.

    Raises DiffError.
    """
    if reference == INSTALLED:
        return Version(reference, None, sys.executable)
    if reference == WORKING_TREE:
        folder = _top_of(repository)
        return Version(reference, folder, _python_for(reference, _required_packages(folder), cache))
    path = Path(reference)
    if path.suffix == ".whl":
        return _of_wheel(reference, path, cache)
    if (path / "controller" / "core").is_dir():
        folder = path.resolve()
        _check_protocol(reference, folder)
        return Version(reference, folder, _python_for(reference, _required_packages(folder), cache))
    return _of_ref(reference, repository, cache)


def cache_folder() -> Path:
    """The folder of stored versions: refold/diff in XDG_CACHE_HOME. Their code is executed, so only
    this user may write it. Raises LogExposed, LogReadOnly, LogFailed."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "refold" / "diff"
    make_private(folder)
    return folder


# A git ref ----------------------------------------------------------------------------------------


def _of_ref(reference: str, repository: Path, cache: Path) -> Version:
    """A git ref. The code is stored by the hash of its tree, once for all refs with this tree."""
    if Path(reference).is_dir() and not _is_ref(reference, repository):
        raise DiffError(
            f"{reference} is a folder without the code of refold: it has no controller/core"
        )
    top = _top_of(repository)
    tree = _git(top, "rev-parse", "--verify", "--quiet", f"{reference}^{{tree}}")
    if tree is None:
        raise DiffError(
            f"{reference} is not a version: it is neither a ref in {top}, nor a folder of the "
            f"code, nor a wheel, nor {WORKING_TREE} or {INSTALLED}"
        )
    name = tree.decode().strip()

    def unpack(folder: Path) -> None:
        known = (_git(top, "ls-tree", "--name-only", name) or b"").decode().split()
        packages = [one for one in _PACKAGES if one in known]
        archive = _git(top, "archive", name, *packages) if packages else None
        if archive is None or "controller" not in packages:
            raise DiffError(f"{reference} does not contain refold's code")
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")

    folder = _cached_folder(cache / "trees" / name, unpack)
    _check_protocol(reference, folder)
    return Version(reference, folder, _python_for(reference, _required_packages(folder), cache))


def _is_ref(reference: str, repository: Path) -> bool:
    name = f"{reference}^{{tree}}"
    return _git(repository, "rev-parse", "--verify", "--quiet", name) is not None


def _top_of(repository: Path) -> Path:
    top = _git(repository, "rev-parse", "--show-toplevel")
    if top is None:
        raise DiffError(
            f"{repository.resolve()} is not in a git repository: run the command in a clone of "
            "refold, or name a folder or a wheel with both --base and --head"
        )
    return Path(top.decode().strip())


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, check=False
        )
    except FileNotFoundError:
        raise DiffError("git is not installed: name folders or wheels") from None
    return done.stdout if done.returncode == 0 else None


# A wheel ------------------------------------------------------------------------------------------


def _of_wheel(reference: str, path: Path, cache: Path) -> Version:
    try:
        content = path.read_bytes()
        wheel = zipfile.ZipFile(BytesIO(content))
    except (OSError, zipfile.BadZipFile) as error:
        raise DiffError(f"{reference} cannot be read as a wheel: {error}") from None
    name = hashlib.blake2b(content, digest_size=16).hexdigest()
    with wheel:
        folder = _cached_folder(cache / "wheels" / name, wheel.extractall)
    _check_protocol(reference, folder)
    metadata = next(folder.glob("*.dist-info/METADATA"), None)
    text = metadata.read_text(encoding="utf-8") if metadata else ""
    required = HeaderParser().parsestr(text).get_all("Requires-Dist") or []
    return Version(reference, folder, _python_for(reference, _without_extras(required), cache))


# All versions ------------------------------------------------------------------------------------


def _cached_folder(folder: Path, fill: Callable[[Path], None]) -> Path:
    """A folder of the cache. It is filled under a temporary name and then renamed, so that it is
    complete if it exists."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        fill(made)
        try:
            made.rename(folder)
        except OSError:
            # Another process made the folder in the meantime.
            if not folder.is_dir():
                raise
    return folder


def _check_protocol(reference: str, folder: Path) -> None:
    if not (folder / _PROTOCOL).is_file():
        raise DiffError(
            f"{reference} is too old for refold diff: it has no {_PROTOCOL.as_posix()}. Name a "
            "later version"
        )


def _required_packages(folder: Path) -> list[str]:
    """The packages that a checkout requires."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return [str(one) for one in project["project"]["dependencies"]]
    except OSError as error:
        why = error.strerror
    except KeyError as error:
        why = f"it has no {error}"
    except tomllib.TOMLDecodeError as error:
        why = str(error)
    raise DiffError(f"{folder}/pyproject.toml cannot be used: {why}")


def _without_extras(required: list[str]) -> list[str]:
    return [one for one in required if "extra ==" not in one]


def _python_for(reference: str, required: list[str], cache: Path) -> str:
    """This Python if the version requires the installed packages; otherwise that of a new
    environment."""
    wanted = _normalized_requirements(required)
    try:
        installed = _normalized_requirements(_without_extras(requires("refold") or []))
    except PackageNotFoundError:
        installed = wanted
    if wanted == installed:
        return sys.executable
    name = hashlib.blake2b("\n".join(wanted).encode(), digest_size=16).hexdigest()
    folder = cache / "environments" / name
    if not folder.is_dir():
        _make_environment(reference, folder, required)
    return str(folder / "bin" / "python")


def _make_environment(reference: str, folder: Path, required: list[str]) -> None:
    """Make a virtual environment in place, because it cannot be moved. Remove it after an error."""
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "pip"), "install", "--quiet", *required],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            last = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise DiffError(
                f"{reference} requires other packages than this version, and they cannot be "
                f"installed: {last}"
            )


def _normalized_requirements(required: list[str]) -> list[str]:
    return sorted(one.replace(" ", "").lower() for one in required)
