"""Reads a stock cluster's incident as an import does, and writes changed copies of it."""

import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC
from itertools import chain
from pathlib import Path

from replay.stock_clusters.broker_logs.reading import BrokerLogs
from replay.stock_clusters.imports.decisions import DecisionClassifier
from replay.stock_clusters.imports.kafka_root import find_kafka
from replay.stock_clusters.imports.logged_requests import LOGS, LoggedRequests
from replay.stock_clusters.imports.terms import Terms
from replay.stock_clusters.zookeeper_log.data_folder import SourceFile, log_zxid
from replay.stock_clusters.zookeeper_log.log_file import TransactionLogReader
from replay.stock_clusters.zookeeper_log.source import Source
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from tools.zookeeper_log.file_format import write_log


class IncidentTransactions:
    """Iterates once over the transactions after the first exact state.

    At each transaction, `state` and `terms` are those before it, and `decisions` classifies it.
    Raises ReplayError if the source cannot be used.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.state = source.first_state()
        for transaction in source.transactions(self.state.zxid):
            if transaction.zxid > self.state.exact_from:
                break
            self.state.apply(transaction)
        following = source.transactions(self.state.zxid)
        self.chroot = find_kafka(self.state.tree, following, None).chroot
        self.terms = Terms(self.chroot, self.state.tree)
        requests = LoggedRequests(BrokerLogs(source.broker_logs, UTC).events(LOGS))
        self.decisions = DecisionClassifier(self.chroot, self.state.tree, self.terms, requests)

    def __iter__(self) -> Iterator[Transaction]:
        for transaction in self._source.transactions(self.state.zxid):
            yield transaction
            self.terms.follow(transaction)
            self.state.apply(transaction)


def copy_all_but_logs(source: Path, target: Path) -> None:
    """Copy an incident's folder without the transaction logs to a new folder."""
    shutil.copytree(source, target, ignore=_logs_among)


def _logs_among(_: str, names: list[str]) -> Iterable[str]:
    return [name for name in names if log_zxid(name) is not None]


def transactions_of(log: Path) -> Iterator[Transaction]:
    """The transactions of one file, up to the first damage."""
    with log.open("rb") as stream:
        yield from TransactionLogReader(stream, log.name)


def write_again(log: SourceFile, target: Path, transactions: Iterable[Transaction]) -> Path | None:
    """Write the changed transactions of a log to a copy of its incident, with the size of the
    original.

    Returns the path, which is named by the first transaction; None if there is none.
    """
    rest = iter(transactions)
    first = next(rest, None)
    if first is None:
        return None
    path = (target / log.name).with_name(f"log.{first.zxid:x}")
    with path.open("wb") as stream:
        write_log(stream, chain((first,), rest), preallocated=log.size)
    return path
