"""Archives of the classes that servers load (Java's class data sharing). With one, a server of the
lab needs half the processor time to start."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.setup.jars import cache_folder
from tools.setup.java import find_java


def archive_of(jars: Path, main_class: str) -> Path:
    """The archive of a server's classes. It depends on the path of the JVM and of the jars."""
    key = hashlib.blake2b(f"{find_java()}\n{jars}".encode(), digest_size=8).hexdigest()
    return cache_folder() / "classes" / f"{main_class}-{key}.jsa"


def options_with_archive(jars: Path, main_class: str) -> Sequence[str]:
    """The JVM options that use the archive, if there is one. A JVM of another version ignores it,
    without a message."""
    archive = archive_of(jars, main_class)
    if not archive.is_file():
        return ()
    return ("-Xshare:auto", "-Xlog:disable", f"-XX:SharedArchiveFile={archive}")


class Recording:
    """Records the classes of one server into a new archive."""

    def __init__(self, jars: Path, main_class: str) -> None:
        self._archive = archive_of(jars, main_class)
        self._archive.unlink(missing_ok=True)
        self._archive.parent.mkdir(parents=True, exist_ok=True)
        self._scratch = tempfile.TemporaryDirectory(dir=self._archive.parent)
        self._recorded = Path(self._scratch.name) / "classes.jsa"
        self.option = f"-XX:ArchiveClassesAtExit={self._recorded}"
        """The JVM option that writes the archive when the server ends."""

    def keep(self) -> Path:
        """Use the archive from now on. Raises FileNotFoundError if the server wrote none."""
        with self._scratch:
            return self._recorded.rename(self._archive)
