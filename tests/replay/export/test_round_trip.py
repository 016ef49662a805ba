"""An exported log is imported unchanged; a truncated or changed export is rejected."""

import gzip
import json
import lzma
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from eventstore.reader import LogReader
from eventstore.verify import verify
from eventstore.writer import LogWriter
from replay.cli.main import app
from replay.incidents.incident_folder import incident_log, incidents_in
from replay.stock_clusters.imports.importing import Selection, import_source
from tests.eventstore.samples import command, event, header
from tests.replay.diff.versions import INCIDENTS, ROOT
from tests.replay.recorded_log import incident, write_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("log") / "log", incident())


@pytest.fixture(scope="module")
def lines(log: Path) -> list[str]:
    found = refold("export", log).stdout.splitlines()
    assert json.loads(found[0])["record"] == "segment"
    assert json.loads(found[-1])["record"] == "end"
    return found


def refold(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def round_trip(log: Path, folder: Path) -> None:
    """Exports, imports and exports again: the bytes and the records are the same."""
    out, again = folder / "out.jsonl", folder / "again.jsonl"
    assert refold("export", log, "--out", out).exit_code == 0
    assert refold("import", out, folder / "copy").exit_code == 0
    assert refold("export", folder / "copy", "--out", again).exit_code == 0
    assert out.read_bytes() == again.read_bytes()
    assert verify(folder / "copy").is_sound
    with LogReader(log) as one, LogReader(folder / "copy") as other:
        assert list(one.records()) == list(other.records())
        assert one.header == other.header
        assert one.closing == other.closing


@pytest.mark.sampled
@pytest.mark.parametrize("folder", incidents_in([INCIDENTS]), ids=lambda one: one.name)
def test_real_incident_is_restored(folder: Path, tmp_path: Path) -> None:
    with incident_log(folder) as log:
        round_trip(log, tmp_path)


def test_imported_log_is_restored(tmp_path: Path) -> None:
    source = ROOT / "tests" / "recordings" / "topics-1.tar.xz"
    import_source(source, tmp_path / "log", Selection())
    round_trip(tmp_path / "log", tmp_path)


def test_unclosed_log_with_several_segments_is_restored(tmp_path: Path) -> None:
    writer = LogWriter.create(tmp_path / "log", header(), segment_bytes=20_000)
    for seq in range(1, 200):
        writer.append([event(seq)], [command(seq)])
    writer.abandon()
    assert len(list((tmp_path / "log").iterdir())) > 1
    round_trip(tmp_path / "log", tmp_path)


def test_replay_of_the_copy_agrees(log: Path, lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").write_text("\n".join(lines) + "\n")
    assert refold("import", tmp_path / "in", tmp_path / "copy").exit_code == 0
    assert CliRunner().invoke(app, ["replay", str(tmp_path / "copy")]).exit_code == 0


def test_export_is_compressed_by_its_extension(log: Path, lines: list[str], tmp_path: Path) -> None:
    for name, module in (("log.jsonl.gz", gzip), ("log.jsonl.xz", lzma)):
        assert refold("export", log, "--out", tmp_path / name).exit_code == 0
        content = module.decompress((tmp_path / name).read_bytes())
        assert content.decode().splitlines() == lines
        assert refold("import", tmp_path / name, tmp_path / f"{name}.log").exit_code == 0


def test_lines_have_the_decoded_content(lines: list[str]) -> None:
    events = [one for line in lines if (one := json.loads(line))["record"] == "event"]
    assert any("/brokers/topics/t" in json.dumps(one) for one in events)
    assert all(isinstance(one["seq"], int) for one in events)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "cut"),
        (lambda lines: [*lines[:-1], lines[-1][:20]], "cannot be read"),
        (lambda lines: [*lines[:5], *lines[6:]], ""),
        (lambda lines: [*lines, lines[-1]], 'continues after "end"'),
        (lambda lines: [one.replace("/brokers/ids", "/brokers/ips") for one in lines], ""),
        (lambda lines: [lines[0], lines[1], lines[1], *lines[2:]], ""),
    ],
)
def test_truncated_or_changed_export_leaves_no_log(
    lines: list[str], tmp_path: Path, change: object, message: str
) -> None:
    assert callable(change)
    (tmp_path / "in").write_text("\n".join(change(lines)) + "\n")
    result = refold("import", tmp_path / "in", tmp_path / "copy")
    assert result.exit_code == 1, result.output
    assert message in result.stderr
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("text\n", ""),
        ('{"a": 1}\n', "was not made by `refold log export`"),
        ('{"record":"segment","layout":99,"header":{}}\n', "upgrade"),
    ],
)
def test_file_that_is_not_an_export_is_rejected(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "in").write_text(content)
    result = refold("import", tmp_path / "in", tmp_path / "copy")
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "copy").exists()


def test_existing_file_or_log_is_not_overwritten(
    log: Path, lines: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    assert refold("export", log, "--out", out).exit_code == 2
    assert out.read_text() == "mine"
    out.write_text("\n".join(lines) + "\n")
    result = refold("import", out, log)
    assert result.exit_code == 2
    assert "contains a log already" in result.stderr
    assert refold("import", tmp_path / "none", tmp_path / "copy").exit_code == 2


# Parquet ------------------------------------------------------------------------------------------


def test_parquet_has_every_record(log: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    result = refold("export", log, "--format", "parquet", "--out", tmp_path / "tables")
    assert result.exit_code == 0, result.output
    events = parquet.read_table(tmp_path / "tables" / "events.parquet").to_pylist()
    commands = parquet.read_table(tmp_path / "tables" / "commands.parquet").to_pylist()
    with LogReader(log) as reader:
        records = list(reader.records())
    assert [one["seq"] for one in events] == [one.seq for one, _ in records]
    assert [one["payload"] for one in events] == [one.payload for one, _ in records]
    assert len(commands) == sum(len(one) for _, one in records)
    assert {one["rule"] for one in commands} >= {"offline partition leader election"}
    assert refold("export", log, "--format", "parquet", "--out", tmp_path / "tables").exit_code == 2
    assert refold("export", log, "--format", "parquet").exit_code == 2


def test_parquet_without_pyarrow_is_an_error(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = refold("export", log, "--format", "parquet", "--out", tmp_path / "tables")
    assert result.exit_code == 2
    assert "Parquet needs pyarrow" in result.stderr
    assert not (tmp_path / "tables").exists()
