"""Only pinned jars are used."""

import hashlib
from pathlib import Path

import pytest

from tools.setup import jars
from tools.setup.jars import JAR_SETS, JarError

GOOD = b"good jar"
SUMS = {"a-1.jar": hashlib.sha256(GOOD).hexdigest()}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of kafka-3.9.1, pinned to the one jar a-1.jar; downloads are impossible."""
    pins = tmp_path / "pins"
    pins.mkdir()
    (pins / "kafka-3.9.1.sha256").write_text(f"{SUMS['a-1.jar']}  a-1.jar\n")
    monkeypatch.setattr(jars, "PINS", pins)
    monkeypatch.setenv("REFOLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no java"))
    folder = tmp_path / "cache" / "kafka-3.9.1"
    folder.mkdir(parents=True)
    return folder


def test_cached_jars_are_not_downloaded_again(cache: Path) -> None:
    (cache / "a-1.jar").write_bytes(GOOD)
    assert jars.fetch("kafka-3.9.1") == cache


def test_changed_jar_is_named_and_removed(cache: Path) -> None:
    (cache / "a-1.jar").write_bytes(b"another jar")
    with pytest.raises(JarError, match=rf"a-1\.jar has SHA-256 .*, pinned is {SUMS['a-1.jar']}"):
        jars.fetch("kafka-3.9.1")
    assert not (cache / "a-1.jar").exists()


def test_jar_that_is_not_pinned_is_named_and_removed(cache: Path) -> None:
    (cache / "a-1.jar").write_bytes(GOOD)
    (cache / "b-1.jar").write_bytes(GOOD)
    with pytest.raises(JarError, match=r"b-1\.jar has SHA-256 .*, pinned is no jar of that name"):
        jars.fetch("kafka-3.9.1")
    assert not (cache / "b-1.jar").exists()


def test_missing_jar_is_named(tmp_path: Path) -> None:
    with pytest.raises(JarError, match=r"lacks a-1\.jar"):
        jars.check(tmp_path, SUMS)


def test_unknown_set_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(JarError, match=r"no jar set kafka-1\.0; use one of kafka-2\.8\.2, "):
        jars.fetch("kafka-1.0")


@pytest.mark.parametrize("name", sorted(JAR_SETS))
def test_every_set_is_pinned(name: str) -> None:
    modules = {f"{module}-{revision}.jar" for _, module, revision in JAR_SETS[name]}
    sums = jars.pinned_sums(name)
    assert modules <= sums.keys()
    assert all(len(digest) == 64 for digest in sums.values())
