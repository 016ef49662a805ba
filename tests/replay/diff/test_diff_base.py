"""What a checkout is compared with: `make diff`, .ci/run."""

from pathlib import Path

import pytest

from tests.replay.diff.versions import commit, git
from tools.diff_base import diff_base


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits on main, both with the protocol."""
    protocol = tmp_path / "replay" / "diff" / "protocol.py"
    protocol.parent.mkdir(parents=True)
    protocol.write_text("")
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path, "first")
    (tmp_path / "file").write_text("")
    commit(tmp_path, "second")
    return tmp_path


def test_on_a_branch_it_is_where_that_left_main(repository: Path) -> None:
    left = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "--quiet", "-b", "change")
    (repository / "file").write_text("changed")
    commit(repository, "a change")
    assert diff_base(repository) == left


def test_on_main_it_is_the_commit_before(repository: Path) -> None:
    assert diff_base(repository) == git(repository, "rev-parse", "HEAD^")


def test_nothing_where_there_is_none_to_compare_with(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "change", "HEAD^")
    (repository / "replay" / "diff" / "protocol.py").unlink()
    commit(repository, "before refold diff")
    git(repository, "branch", "--force", "main")
    (repository / "file").write_text("changed")
    commit(repository, "a change")
    assert diff_base(repository) is None


def test_nothing_outside_of_a_repository(tmp_path: Path) -> None:
    assert diff_base(tmp_path) is None
