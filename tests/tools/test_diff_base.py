"""The commit with which `make diff` and .ci/run compare a checkout."""

from pathlib import Path

import pytest

from tests.replay.diff.versions import commit, git
from tools.diff_base import diff_base


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits on main, both with the protocol of `refold diff`."""
    protocol = tmp_path / "replay" / "diff" / "protocol.py"
    protocol.parent.mkdir(parents=True)
    protocol.write_text("")
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path, "first")
    (tmp_path / "file").write_text("")
    commit(tmp_path, "second")
    return tmp_path


def test_base_of_a_branch_is_its_branch_point(repository: Path) -> None:
    branch_point = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "--quiet", "-b", "change")
    (repository / "file").write_text("changed")
    commit(repository, "a change")
    assert diff_base(repository) == branch_point


def test_base_on_main_is_the_previous_commit(repository: Path) -> None:
    assert diff_base(repository) == git(repository, "rev-parse", "HEAD^")


def test_commit_before_refold_diff_is_no_base(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "change", "HEAD^")
    (repository / "replay" / "diff" / "protocol.py").unlink()
    commit(repository, "before refold diff")
    git(repository, "branch", "--force", "main")
    (repository / "file").write_text("changed")
    commit(repository, "a change")
    assert diff_base(repository) is None


def test_folder_outside_of_a_repository_has_no_base(tmp_path: Path) -> None:
    assert diff_base(tmp_path) is None
