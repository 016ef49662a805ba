"""The audit says what was compared: no answer of an index counts as a good one."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tools.audit.__main__ import app
from tools.audit.advisories import locked

LOCK = "one==1.2 \\\n    --hash=sha256:00\nTwo.Words==3.0 ; python_version < '3.12' \\\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements").mkdir()
    for name in ("dev", "build"):
        (tmp_path / "requirements" / f"{name}.lock").write_text(LOCK)
    return tmp_path


def audit(*options: str | Path) -> tuple[int, list[str]]:
    result = CliRunner().invoke(app, list(map(str, options)))
    return result.exit_code, result.output.splitlines()


def pip_audit(folder: Path, answers: list[dict[str, Any]], status: int = 0) -> Path:
    """A program that answers like pip-audit."""
    program = folder / "pip-audit"
    output = json.dumps({"dependencies": answers, "fixes": []})
    program.write_text(f"#!{sys.executable}\nprint({output!r})\nraise SystemExit({status})\n")
    program.chmod(0o755)
    return program


def package(name: str, version: str, *vulnerabilities: str) -> dict[str, Any]:
    found = [{"id": one, "fix_versions": ["9"]} for one in vulnerabilities]
    return {"name": name, "version": version, "vulns": found}


def test_lock_file_is_read_as_pip_reads_it(project: Path) -> None:
    assert locked(project / "requirements" / "dev.lock") == [("one", "1.2"), ("two-words", "3.0")]


def test_index_without_advisories_is_reported_and_no_failure(project: Path) -> None:
    program = pip_audit(project, [{"name": "one", "skip_reason": "not found"}])
    status, lines = audit("--program", program)
    assert status == 0
    assert [one.partition(":")[0] for one in lines] == ["NOT AUDITED"] * 2


def test_index_that_cannot_be_reached_is_reported_and_no_failure(project: Path) -> None:
    program = project / "pip-audit"
    program.write_text("#!/bin/sh\necho 'no such host' >&2\nexit 1\n")
    program.chmod(0o755)
    status, lines = audit("--program", program)
    assert status == 0
    assert "no advisories could be read from pip-audit: no such host" in lines[0]


def test_packages_that_were_not_compared_are_counted(project: Path) -> None:
    skipped = {"name": "two-words", "skip_reason": "not found"}
    status, lines = audit("--program", pip_audit(project, [package("one", "1.2"), skipped]))
    assert status == 0
    assert "1 of 2 packages compared with the package index, 1 NOT COMPARED: 0 vuln" in lines[0]


def test_vulnerable_package_is_a_failure_until_it_is_accepted(project: Path) -> None:
    answers = [package("one", "1.2", "PYSEC-1"), package("two-words", "3.0")]
    program = pip_audit(project, answers, 1)
    status, lines = audit("--program", program)
    assert status == 1
    assert lines[0] == "one 1.2: PYSEC-1, fixed in 9"
    accepted = project / "requirements" / "accepted-advisories.txt"
    accepted.write_text("# why\nPYSEC-1 only tests use it\n")
    status, lines = audit("--program", program)
    assert status == 0
    assert "(accepted: PYSEC-1 only tests use it)" in lines[0]


@pytest.mark.parametrize(
    ("affected", "vulnerable"),
    [
        ({"versions": ["1.2"]}, True),
        ({"versions": ["1.3"]}, False),
        ({"ranges": [["1.0", "1.3"]]}, True),
        ({"ranges": [["1.0", "1.2"]]}, False),
        ({"ranges": [["0", "1.1"], ["1.2", None]]}, True),
    ],
)
def test_folder_of_advisories_is_compared_by_versions_and_ranges(
    project: Path, affected: dict[str, Any], vulnerable: bool
) -> None:
    folder = project / "vulns" / "one"
    folder.mkdir(parents=True)
    ranges = [
        {
            "type": "ECOSYSTEM",
            "events": [{"introduced": first}, *([{"fixed": fixed}] if fixed else [])],
        }
        for first, fixed in affected.get("ranges", ())
    ]
    content = {
        "id": "PYSEC-1",
        "modified": "2026-01-02T00:00:00Z",
        "affected": [{**affected, "ranges": ranges, "package": {"name": "One"}}],
    }
    (folder / "PYSEC-1.yaml").write_text(json.dumps(content))
    status, lines = audit("--advisories", project)
    assert status == vulnerable
    assert any("up to 2026-01-02" in one for one in lines)
    (folder / "PYSEC-1.yaml").write_text(json.dumps({**content, "withdrawn": "2026-01-03"}))
    assert audit("--advisories", project)[0] == 0


def test_folder_that_is_no_database_is_an_error(project: Path) -> None:
    assert audit("--advisories", project)[0] == 2
