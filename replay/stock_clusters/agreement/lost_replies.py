"""Writes that were done and whose replies did not come.

No log tells of a connection that broke in the middle of a session. What shows it is that the
session writes the same again and is refused; that is known only where nothing else explains the
refused write, so the comparison runs again with what was found.
"""

from collections.abc import Set


class LostReplies:
    """`lost` are the zxids of decisions without a reply; `supposed` those that would explain what
    the fold lacks, in order."""

    def __init__(self, lost: Set[int] = frozenset()) -> None:
        self.lost = lost
        self.supposed: list[int] = []

    def suppose(self, zxid: int) -> None:
        """Behind this decision of its session a write was refused that the fold does not do."""
        if zxid not in self.lost:
            self.supposed.append(zxid)
