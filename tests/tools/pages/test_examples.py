"""Console examples of a page are run in order, and output that changed is replaced."""

from pathlib import Path

import pytest

from tools.pages.__main__ import renew
from tools.pages.examples import ExampleError, with_examples_run


def run(text: str, tmp_path: Path) -> str:
    for name in ("docs", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[project.scripts]\nrefold = "controller.cli.main:main"\n', encoding="utf-8"
    )
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    return with_examples_run("page.md", tmp_path)


def page(*lines: str) -> str:
    return "\n".join(["# Page", "", "```console", *lines, "```", "", "The end.", ""])


def test_output_that_agrees_is_left_alone(tmp_path: Path) -> None:
    text = page("$ printf 'a  b\\nc\\n'", "a b", "c", "$ true", "$ echo d; echo e", "d", "...")
    assert run(text, tmp_path) == text


def test_output_that_differs_is_replaced(tmp_path: Path) -> None:
    text = page("$ echo a", "b", "c", "$ echo d", "d")
    assert run(text, tmp_path) == page("$ echo a", "a", "$ echo d", "d")


def test_command_continues_on_the_next_line(tmp_path: Path) -> None:
    text = page("$ echo a \\", "> b", "a b")
    assert run(text, tmp_path) == text


def test_commands_of_a_page_share_a_folder(tmp_path: Path) -> None:
    text = page("$ echo a > file", "$ cat file", "a")
    assert run(text, tmp_path) == text
    assert not (tmp_path / "file").exists()


def test_failing_command_is_an_error_with_its_page_and_output(tmp_path: Path) -> None:
    with pytest.raises(ExampleError, match=r"page\.md: exit status 3 of: echo a; exit 3\na"):
        run(page("$ echo a; exit 3"), tmp_path)


def test_after_a_failed_command_the_other_pages_are_written(tmp_path: Path) -> None:
    before = page("$ exit 3")
    pages = {"page.md": lambda: run(before, tmp_path), "README.md": lambda: "new"}
    errors = renew(pages, tmp_path, write=True)
    assert errors[0] == "page.md: exit status 3 of: exit 3\n"
    assert "record the incidents again" in errors[1]
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == before
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "new"


def test_stale_pages_are_named_next_to_failed_commands(tmp_path: Path) -> None:
    pages = {"page.md": lambda: run(page("$ exit 3"), tmp_path), "README.md": lambda: "new"}
    errors = renew(pages, tmp_path, write=False)
    assert errors[-1] == "out of date: README.md; run python -m tools.pages --write"
    assert not (tmp_path / "README.md").exists()


def test_blocks_of_another_language_are_not_run(tmp_path: Path) -> None:
    text = page("$ true").replace("console", "sh").replace("true", "exit 3")
    assert run(text, tmp_path) == text
