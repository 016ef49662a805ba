"""Fetches the jars of Kafka and ZooKeeper with the Apache Ivy in pyspark, and checks them.

A jar set is a folder of jars in the cache. Its jars and their SHA-256 sums are pinned in
tools/lab/jars/<set>.sha256, in the format of sha256sum. A jar that is not listed is rejected.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tools.setup.java import find_java

PINS = Path(__file__).parents[1] / "lab" / "jars"

Module = tuple[str, str, str]
"""Organisation, name and revision of a module, as in Ivy and Maven."""

Report = Callable[[str], None]
"""Takes a line about the current step."""


def _kafka(version: str) -> tuple[Module, ...]:
    # Kafka declares no slf4j binding: without slf4j-reload4j the brokers write no logs.
    return (
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        ("org.slf4j", "slf4j-reload4j", "1.7.36"),
    )


def _spark_kafka(version: str, kafka: str, commons_pool: str) -> tuple[Module, ...]:
    return (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", version),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", version),
        ("org.apache.kafka", "kafka-clients", kafka),
        ("org.apache.commons", "commons-pool2", commons_pool),
    )


# The newest version in the registry, which has none for pyspark 4.3.0. It works with 4.3.0.
SPARK_KAFKA = "spark-kafka-4.2.0"
MERMAID = "mermaid-11.6.0"
"""Draws the diagrams of the documentation site."""

JAR_SETS: Mapping[str, tuple[Module, ...]] = {
    "kafka-3.9.1": _kafka("3.9.1"),
    "kafka-3.3.2": _kafka("3.3.2"),
    "kafka-2.8.2": _kafka("2.8.2"),
    "zookeeper-3.5.9": (("org.apache.zookeeper", "zookeeper", "3.5.9"),),
    SPARK_KAFKA: _spark_kafka("4.2.0", kafka="3.9.2", commons_pool="2.13.1"),
    MERMAID: (("org.webjars.npm", "mermaid", "11.6.0"),),
}
_WITHOUT_DEPENDENCIES = frozenset({SPARK_KAFKA, MERMAID})
"""Sets without the dependencies of their modules: pyspark provides them, or the jar has them."""


class JarError(Exception):
    """Jars could not be fetched, or one differs from the pinned one; the message names it."""


def cache_folder() -> Path:
    """The folder of jar sets: REFOLD_CACHE, else `refold` in the user's cache folder."""
    if own := os.environ.get("REFOLD_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "refold"


def pyspark_jars() -> Path:
    """The folder of pyspark's jars, which include ZooKeeper 3.9 and Ivy."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark, which contains the lab's jars, is not installed; run `make setup`")
    return Path(spec.origin).parent / "jars"


def fetch(name: str, report: Report = lambda line: None) -> Path:
    """The folder of the jar set `name`, which is downloaded if it is not complete in the cache.

    Raises JarError for an unknown set, a failed download or a jar with a wrong checksum.
    """
    _modules(name)
    cache = cache_folder()
    folder = cache / name
    sums = pinned_sums(name)
    with _locked(cache):
        if not all((folder / jar).is_file() for jar in sums):
            _download(name, sums, folder, report)
        check(folder, sums)
    return folder


def pinned_sums(name: str) -> dict[str, str]:
    """The SHA-256 sum (hexadecimal) of each jar of a set, by file name."""
    lines = (PINS / f"{name}.sha256").read_text(encoding="ascii").splitlines()
    return {jar: digest for digest, jar in (line.split() for line in lines)}


def sums_of(folder: Path) -> dict[str, str]:
    """The SHA-256 sum of each jar in `folder`, by file name, sorted."""
    return {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in sorted(folder.glob("*.jar"))
    }


def pin(name: str, report: Report) -> None:
    """Download a jar set and pin its present jars."""
    with tempfile.TemporaryDirectory() as scratch:
        staged = Path(scratch) / "jars"
        retrieve(name, Path(scratch), staged, report)
        lines = (f"{digest}  {jar}\n" for jar, digest in sums_of(staged).items())
        (PINS / f"{name}.sha256").write_text("".join(lines), encoding="ascii")


def check(folder: Path, sums: Mapping[str, str]) -> None:
    """Compare the jars in `folder` with their pinned sums.

    Raises JarError with the name of a jar that is missing. A jar that differs or is not pinned is
    removed.
    """
    found = sums_of(folder)
    for jar, digest in found.items():
        if digest != sums.get(jar):
            (folder / jar).unlink()
            expected = sums.get(jar, "no jar of that name")
            raise JarError(
                f"{jar} has SHA-256 {digest}, pinned is {expected}; "
                "it was removed; run again to download it"
            )
    if missing := sorted(sums.keys() - found.keys()):
        raise JarError(f"{folder} lacks {', '.join(missing)}")


def _modules(name: str) -> Sequence[Module]:
    if name not in JAR_SETS:
        raise JarError(f"no jar set {name}; use one of {', '.join(sorted(JAR_SETS))}")
    return JAR_SETS[name]


def _download(name: str, sums: Mapping[str, str], folder: Path, report: Report) -> None:
    report(f"downloading {folder.name}: {len(sums)} jars")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        staged = Path(scratch) / "jars"
        retrieve(name, Path(scratch), staged, report)
        check(staged, sums)
        shutil.rmtree(folder, ignore_errors=True)
        staged.rename(folder)


def retrieve(name: str, scratch: Path, into: Path, report: Report) -> None:
    """Let Ivy download the jars of a set to `into`, unchecked."""
    description = scratch / "ivy.xml"
    description.write_text(_ivy_description(name), encoding="utf-8")
    settings = os.environ.get("REFOLD_IVY_SETTINGS")
    command: list[str | Path] = [
        *(find_java(), "-cp", pyspark_jars() / "*", "org.apache.ivy.Main"),
        *(("-settings", settings) if settings else ()),
        *("-cache", scratch / "ivy", "-ivy", description, "-confs", "default"),
        *("-retrieve", into / "[artifact]-[revision](-[classifier]).[ext]"),
    ]
    output: list[str] = []
    count = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        for line in ivy.stdout or ():
            output.append(line.strip())
            if match := _DOWNLOADED.search(line):
                count += 1
                report(f"downloaded {match[1]} ({count})")
    if ivy.returncode != 0:
        reasons = [line for line in output if line.startswith(("::", "ERROR", "SERVER ERROR"))]
        raise JarError(f"Ivy could not download the jars: {'; '.join(reasons[-5:] or output[-5:])}")


_DOWNLOADED = re.compile(r"\[SUCCESSFUL ] \S+!(\S+)")


def _ivy_description(name: str) -> str:
    expected = "master" if name in _WITHOUT_DEPENDENCIES else "default"
    dependencies = "".join(
        f"<dependency org={quoteattr(organisation)} name={quoteattr(module)} "
        f'rev={quoteattr(revision)} conf="default->{expected}"/>'
        for organisation, module, revision in _modules(name)
    )
    return (
        '<ivy-module version="2.0"><info organisation="refold" module="lab"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One process at a time fills the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
