"""Runs a continuation in the simulated cluster, and notes the changes and acknowledged records."""

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from controller.core.values import NO_LEADER
from controller.core.znodes import Name
from replay.errors import ReplayError
from replay.what_if.history import ClusterHistory, ZnodeReader
from replay.world.broker.messages import ALL
from replay.world.cluster import Cluster
from replay.world.ensemble.transactions import Transaction
from replay.world.inputs import Input
from replay.world.observer import AcknowledgedRecord, Observer
from replay.world.scenario import Scenario
from replay.world.scheduler import MS


class HistoryRecorder(Observer):
    """Keeps the history of a run, and the records that producers have acknowledgements of.

    `is_over` is called at `begin_ms`, and after each transaction from then on: True ends the run.
    """

    def __init__(
        self, is_over: Callable[[ClusterHistory], bool] | None = None, begin_ms: int = 0
    ) -> None:
        self.history = ClusterHistory()
        self.has_ended = False
        self._is_over = is_over
        self._begin_ms = begin_ms
        self.records: dict[Name, list[tuple[int, int]]] = {}
        """By partition: each record, with the acks of its producer; without those of acks=0."""
        self._reader = ZnodeReader(self.history)

    def begins(self, cluster: Any) -> None:
        """Note the znodes at the start, and those that transactions change."""
        state = cluster.zookeeper.state

        def note_znode(zxid: int, at_ms: int, path: str) -> None:
            node = state.find(path)
            if node is None:
                self._reader.changed(zxid, at_ms, path, None, 0, 0)
            else:
                self._reader.changed(zxid, at_ms, path, node.data, node.version, node.owner)

        for path in sorted(state.dump(), key=lambda one: one.count("/")):
            note_znode(0, 0, path)
        before = cluster.zookeeper.on_transaction

        def committed(transaction: Transaction) -> None:
            before(transaction)
            for _, path in transaction.changes:
                note_znode(transaction.zxid, transaction.at_us // MS, path)
            if transaction.at_us >= self._begin_ms * MS:
                self._check_for_end()

        cluster.zookeeper.on_transaction = committed
        cluster.scheduler.call_at(self._begin_ms * MS, self._check_for_end)

    def _check_for_end(self) -> None:
        if self._is_over is not None and self._is_over(self.history):
            self.has_ended = True

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        """Keep a record that was acknowledged, unless its producer has acks=0."""
        if one.acks:
            self.records.setdefault(one.name, []).append((one.record, one.acks))


def run_to_end(scenario: Scenario, inputs: Sequence[Input], recorder: HistoryRecorder) -> Cluster:
    """Run a continuation to its end, or until `recorder` ends it.

    Raises ReplayError if the controller's code fails.
    """
    try:
        cluster = Cluster(scenario, inputs, recorder)
        while not recorder.has_ended and cluster.step():
            pass
    except Exception as error:
        # Any exception of the code that runs is a result of the change.
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise ReplayError(
            "the continuation ended with an error of the controller's code: "
            f"{type(error).__name__}: {error} ({place.name}); `refold explore --from-log` can save "
            "such a run"
        ) from error
    return cluster


def lost_records(cluster: Cluster, recorder: HistoryRecorder) -> dict[Name, tuple[int, int]]:
    """By partition: how many acknowledged records with acks=all, and with acks=1, are lost at the
    end of a run.

    A record is lost if the leader does not have it. Without a leader, it is lost if no member of
    the ISR has it: one of them will be leader, unless an election is unclean.
    """
    found: dict[Name, tuple[int, int]] = {}
    for name, acknowledged in recorder.records.items():
        if name not in recorder.history.names():
            continue  # The topic was deleted.
        now = recorder.history.partition(name)
        holders = now.isr if now.leader == NO_LEADER else (now.leader,)
        kept: set[int] = set()
        for broker in holders:
            log = cluster.brokers[broker].disk.logs.get(name) if broker in cluster.brokers else None
            kept.update(log.records if log is not None else ())
        missing = [acks for record, acks in acknowledged if record not in kept]
        if missing:
            found[name] = (missing.count(ALL), len(missing) - missing.count(ALL))
    return found
