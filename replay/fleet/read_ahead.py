"""Read-ahead of files: the kernel reads the next files while the current one is processed."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

_FILES: Final = 2
_BYTES: Final = 64 << 20
"""For each file; the kernel reads ahead by itself after that."""

_Item = TypeVar("_Item")


def with_read_ahead(items: Iterable[_Item], file_of: Callable[[_Item], Path]) -> Iterator[_Item]:
    """Yield the items in order while the files of the following items are prefetched."""
    waiting: deque[_Item] = deque()
    for item in items:
        _prefetch(file_of(item))
        waiting.append(item)
        if len(waiting) > _FILES:
            yield waiting.popleft()
    yield from waiting


def _prefetch(file: Path) -> None:
    """Errors are ignored: the reader of the file reports them."""
    if not hasattr(os, "posix_fadvise"):
        return
    with suppress(OSError):
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            os.posix_fadvise(opened, 0, _BYTES, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(opened)
