"""Completion of the shell."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.replay.cli.command import REFOLD


@pytest.fixture
def refold(tmp_path: Path) -> Path:
    """A `refold` of this working tree, in a folder for PATH."""
    script = tmp_path / "refold"
    script.write_text("#!/bin/bash\nexec " + " ".join(f"'{one}'" for one in REFOLD) + ' "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("line", "offered", "other"),
    [
        (("refold", "he"), "health", "why"),
        (("refold", "health", "--mi"), "--min-insync-replicas", "--topic"),
        (("refold", "log", ""), "verify", "health"),
    ],
)
def test_bash_completes_commands_and_options(
    refold: Path, line: tuple[str, ...], offered: str, other: str
) -> None:
    words = " ".join(f"'{one}'" for one in line)
    program = (
        f'eval "$(_REFOLD_COMPLETE=source_bash refold)"; complete -p refold >/dev/null || exit 1\n'
        f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}\n"
        f'_refold_completion refold; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "-c", program],
        env={**os.environ, "PATH": f"{refold.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    completions = done.stdout.split()
    assert offered in completions
    assert other not in completions


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_have_a_script(refold: Path, shell: str) -> None:
    done = subprocess.run(
        [refold],
        env={**os.environ, "_REFOLD_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"_REFOLD_COMPLETE=complete_{shell}" in done.stdout
