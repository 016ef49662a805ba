"""The znode paths that a ZooKeeper server accepts, and their parents.

The rules are those of PathUtils.validatePath and PrepRequestProcessor in ZooKeeper 3.9.
"""

import re
from typing import Final

ROOT: Final = "/"
SPECIAL: Final = (ROOT, "/zookeeper", "/zookeeper/quota", "/zookeeper/config")
"""Paths that every server has and that cannot be deleted."""

# A server uses UTF-16, in which characters beyond the basic plane are surrogates.
_FORBIDDEN: Final = re.compile(
    "//|/\\.{1,2}(?=/|\\Z)|[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]"
)


def is_valid(path: str) -> bool:
    """Whether a znode can have this path."""
    if path == ROOT:
        return True
    return path[:1] == "/" and path[-1] != "/" and _FORBIDDEN.search(path) is None


def has_parent(path: str) -> bool:
    """Whether the path has a parent; weaker than `is_valid`, and checked first by servers."""
    return "/" in path and "\0" not in path


def parent_of(path: str) -> str:
    """The parent of a path that `has_parent`; the root is its own parent."""
    return path[: path.rfind("/")] or ROOT


def name_of(path: str) -> str:
    """The last part of a path."""
    return path[path.rfind("/") + 1 :]


def below(path: str, root: str) -> str | None:
    """A path relative to a chroot ("" for none); None if the path is not below the chroot."""
    if path.startswith(f"{root}/"):
        return path[len(root) :]
    return ROOT if root and path == root else None
