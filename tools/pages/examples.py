"""Console examples in Markdown: each command of a page is run, and its output compared.

A fenced block of the language `console` holds commands after `$ ` (continued after `> `), each
followed by its output. `...` in the output matches anything, and white space does not count, so
long lines may be wrapped. The commands of a page share one empty folder that has the repository's
`tests` and `docs` in it, so that they read as in a clone and write nothing into it.
"""

import doctest
import os
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).parents[2]
COLUMNS: Final = 110
_TIMEOUT_S: Final = 120
_CHECKER: Final = doctest.OutputChecker()
_FLAGS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class ExampleError(Exception):
    """A command of a page failed. The text names the page and the command, with its output."""


@dataclass(frozen=True)
class Example:
    """A command of a page, with the lines (from 0) that its output takes there."""

    command: str
    first_line: int
    end_line: int
    output: str


def pages_with_examples(root: Path = ROOT) -> list[str]:
    """The Markdown files at `root` and in its docs/ that have console blocks, as paths below it."""
    return [
        str(page.relative_to(root))
        for page in sorted([*root.glob("*.md"), *root.glob("docs/*.md")])
        if examples_of(page.read_text(encoding="utf-8"))
    ]


def with_examples_run(name: str, root: Path = ROOT) -> str:
    """The page `name` (a path below `root`) with the output that its commands have now.

    Output that agrees with the page is left as the page has it. Raises ExampleError.
    """
    text = (root / name).read_text(encoding="utf-8")
    lines = text.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        environment = _prepare(Path(folder), root)
        outputs = [
            _run_command(name, example.command, folder, environment)
            for example in examples_of(text)
        ]
    for example, output in reversed(list(zip(examples_of(text), outputs, strict=True))):
        if not _CHECKER.check_output(example.output, output, _FLAGS):
            lines[example.first_line : example.end_line] = _wrapped(output)
    return "\n".join(lines) + "\n"


def examples_of(text: str) -> list[Example]:
    """The commands in the console blocks of `text`, in their order."""
    lines = text.splitlines()
    found = []
    for token in MarkdownIt().parse(text):
        if token.type == "fence" and token.info.strip() == "console" and token.map:
            found += _examples_between(lines, token.map[0] + 1, token.map[1] - 1)
    return found


def _examples_between(lines: list[str], begin: int, end: int) -> list[Example]:
    starts = [at for at in range(begin, end) if lines[at].startswith("$ ")]
    found = []
    for start, next_start in zip(starts, [*starts[1:], end], strict=True):
        first = start + 1
        while first < next_start and lines[first].startswith("> "):
            first += 1
        command = "\n".join(line[2:] for line in lines[start:first])
        output = "".join(f"{line}\n" for line in lines[first:next_start])
        found.append(Example(command, first, next_start, output))
    return found


def _prepare(folder: Path, root: Path) -> dict[str, str]:
    """An environment with the `refold` of `root`; the data of `root` is linked into `folder`."""
    for name in ("docs", "tests"):
        (folder / name).symlink_to(root / name)
    entry = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    module, function = entry["project"]["scripts"]["refold"].split(":")
    commands = folder / ".commands"
    commands.mkdir()
    refold = commands / "refold"
    refold.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(root)!r})\n"
        f"from {module} import {function}\nsys.exit({function}())\n",
        encoding="utf-8",
    )
    refold.chmod(0o755)
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("REFOLD_")},
        "PATH": f"{commands}:{os.environ['PATH']}",
        "COLUMNS": str(COLUMNS),
        "NO_COLOR": "1",
        "TZ": "UTC",
    }


def _run_command(page: str, command: str, folder: str, environment: dict[str, str]) -> str:
    """The output of `command` of `page`, on both streams.

    Raises ExampleError if the exit status is not 0, or after _TIMEOUT_S.
    """
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise ExampleError(f"{page}: no end after {_TIMEOUT_S} s of: {command}") from None
    if done.returncode:
        raise ExampleError(f"{page}: exit status {done.returncode} of: {command}\n{done.stdout}")
    return done.stdout


def _wrapped(output: str) -> list[str]:
    lines: list[str] = []
    for line in output.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(
            line, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return lines
