"""Invariants of watches: what they announce is read."""

from typing import ClassVar

from replay.explore.invariants.invariant import Invariant, Report
from replay.explore.invariants.known_cluster import KnownCluster

_NEW_TERM = ("elected", "resigned")
"""The codes that a controller logs when it begins and ends a term. A failover reads all lists."""


class ChangedListsRead(Invariant):
    """Source: race R12; KB 3.3.1, 3.5, 8.2.1.

    A watch fires once. If a list is read, changes again, and is used after that, the change is
    missed.
    """

    NAME: ClassVar[str] = "changed-lists-read"
    STATEMENT: ClassVar[str] = (
        "When a controller has handled all its events, it has read each list of children (brokers, "
        "topics, deletions, notifications) after the last watch event that announced a change of "
        "it."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._unread: dict[str, dict[str, int]] = {}
        """For each controller the lists that it has not read since a change, with its event."""

    def list_changed(self, process: str, path: str, seq: int) -> None:
        self._unread.setdefault(process, {})[path] = seq

    def list_read(self, process: str, path: str, children: list[str], asked: int) -> None:
        unread = self._unread.get(process, {})
        if unread.get(path, asked + 1) <= asked:
            del unread[path]

    def noticed(self, process: str, code: str, subject: str) -> None:
        if code in _NEW_TERM:
            self._unread.pop(process, None)

    def handled(self, process: str) -> None:
        for path, seq in self._unread.pop(process, {}).items():
            self.violated(
                path,
                f"{process} has handled all its events, and has not read the list since its event "
                f"{seq}, which says that the list has changed",
            )


class ReadListsKnown(Invariant):
    """Source: race R12; KB 3.3.1, 3.5."""

    NAME: ClassVar[str] = "read-lists-known"
    STATEMENT: ClassVar[str] = (
        "When a controller has handled all its events, it knows all brokers and topics of the "
        "lists that it has read last."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._read: dict[str, dict[str, list[str]]] = {}
        """For each controller the lists that it has read since it was last compared."""

    def list_read(self, process: str, path: str, children: list[str], asked: int) -> None:
        self._read.setdefault(process, {})[path] = children

    def noticed(self, process: str, code: str, subject: str) -> None:
        if code in _NEW_TERM:
            self._read.pop(process, None)

    def handled(self, process: str) -> None:
        for path, children in self._read.pop(process, {}).items():
            names = self.known.children_known_to(process, path)
            unknown = [one for one in children if names is not None and one not in names]
            if unknown:
                self.violated(
                    path,
                    f"{process} has handled all its events, and does not know {unknown}, which it "
                    "has read there",
                )
