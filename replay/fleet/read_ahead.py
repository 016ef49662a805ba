"""Asking for files before their turn: while one log is worked on, the disk brings the next ones."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

_FILES: Final = 2
_BYTES: Final = 64 << 20
"""Of each file; what is behind that, the system reads ahead by itself."""

_Item = TypeVar("_Item")


def with_read_ahead(items: Iterable[_Item], file_of: Callable[[_Item], Path]) -> Iterator[_Item]:
    """The items, as they come, the files of the next ones asked for."""
    waiting: deque[_Item] = deque()
    for item in items:
        _ask_for(file_of(item))
        waiting.append(item)
        if len(waiting) > _FILES:
            yield waiting.popleft()
    yield from waiting


def _ask_for(file: Path) -> None:
    """Whatever is wrong with it, its reader will tell."""
    if not hasattr(os, "posix_fadvise"):
        return
    with suppress(OSError):
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            os.posix_fadvise(opened, 0, _BYTES, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(opened)
