"""`python -m tools.diff_base`: print the commit to compare this checkout's decisions with.

On a branch this is the commit at which it left main; on main the previous commit. If there is none,
or if it does not have `refold diff`, standard error says so and nothing is printed.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

_MAINS: Final = ("origin/main", "main")
_PROTOCOL: Final = "replay/diff/protocol.py"


def main() -> None:
    """Print the commit."""
    base = diff_base(Path())
    if base is None:
        sys.stderr.write(
            "refold diff: no commit to compare with, or it does not have refold diff\n"
        )
    else:
        sys.stdout.write(f"{base}\n")


def diff_base(repository: Path) -> str | None:
    """The commit; None if there is none to compare with."""
    head = _git(repository, "rev-parse", "--verify", "--quiet", "HEAD")
    if head is None:
        return None
    bases = (_git(repository, "merge-base", head, one) for one in _MAINS)
    base = next((one for one in bases if one), head)
    if base == head:
        base = _git(repository, "rev-parse", "--verify", "--quiet", f"{head}^") or head
    return base if _git(repository, "cat-file", "-e", f"{base}:{_PROTOCOL}") is not None else None


def _git(repository: Path, *arguments: str) -> str | None:
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    main()
