"""Which znode paths a ZooKeeper server accepts, and what their parents are.

Rules as ZooKeeper 3.9's PathUtils.validatePath and PrepRequestProcessor have them.
"""

import re
from typing import Final

ROOT: Final = "/"
SPECIAL: Final = (ROOT, "/zookeeper", "/zookeeper/quota", "/zookeeper/config")
"""Paths that every server has and that nobody may delete."""

# A server counts in UTF-16, so that characters beyond the basic plane are surrogates to it.
_FORBIDDEN: Final = re.compile(
    "//|/\\.{1,2}(?=/|\\Z)|[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]"
)


def is_valid(path: str) -> bool:
    """Whether a znode can have this path."""
    if path == ROOT:
        return True
    return path[:1] == "/" and path[-1] != "/" and _FORBIDDEN.search(path) is None


def has_parent(path: str) -> bool:
    """Whether the server can cut a parent off: less than `is_valid`, and asked for first."""
    return "/" in path and "\0" not in path


def parent_of(path: str) -> str:
    """The parent of a path that `has_parent`; the root is its own."""
    return path[: path.rfind("/")] or ROOT


def name_of(path: str) -> str:
    """The last part of a path."""
    return path[path.rfind("/") + 1 :]


def below(path: str, root: str) -> str | None:
    """A path as those know it whose root is another znode, "" for the server's own; None of what
    does not lie there."""
    if path.startswith(f"{root}/"):
        return path[len(root) :]
    return ROOT if root and path == root else None
