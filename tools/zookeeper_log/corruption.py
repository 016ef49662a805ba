"""Copies of an incident with one changed decision, which `refold agree` has to report.

    corruption = corrupt(folder, copy, seed=7)

Only the transaction logs are changed; later snapshots, which an import does not use, are not.
Checksums are correct. No transaction of the copy has a TreeDigest, because digests would be wrong
after the change. The reader accepts such a log like one from before 3.6.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct, structs

from controller.core.values import NO_LEADER
from controller.core.znodes import BROKER_IDS, CONTROLLER, CONTROLLER_EPOCH, partition_of_state
from replay.errors import ReplayError
from replay.stock_clusters.imported_log.events import DecisionObserved
from replay.stock_clusters.zookeeper_log.source import Source, open_source
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Error,
    Multi,
    OpCode,
    Operation,
    SetAcl,
    SetData,
    Transaction,
)
from replay.znode_tree.tree import Refused
from tools.zookeeper_log.incidents import (
    IncidentTransactions,
    copy_all_but_logs,
    transactions_of,
    write_again,
)

_Json = dict[str, Any]
_NO_NODE: Final = -101
_NO_ZXID: Final = 0
_AFTER_ALL: Final = 2**63 - 1


class Corruption(Struct, frozen=True):
    """The change of the decision at `zxid` of the source. `what` is its kind
    (docs/imported-logs.md).

    `how` is one of KINDS. `before` and `after` are the znode's data, None if it is deleted or
    dropped. `is_last_of_term`: its term has no later decision, so that dropping it looks like a
    controller that failed before the write.
    """

    how: str
    zxid: int
    what: str
    path: str
    before: str | None
    after: str | None
    is_last_of_term: bool


class _Change(Struct, frozen=True):
    """A corruption, and the transactions to write `instead`. Transactions up to `shifted_to` get
    the next zxid; the one at `shifted_to`, which had no effect, is dropped."""

    corruption: Corruption
    instead: tuple[Transaction, ...]
    shifted_to: int = _NO_ZXID


def corrupt(source: Path, target: Path, seed: int, hows: Sequence[str] | None = None) -> Corruption:
    """Copy an incident's folder to the new folder `target` with one decision changed.

    The decision is an election, or a later one that was not refused and that is still classified as
    a decision after the change. Each of `hows` (default: all) for which the incident has decisions
    is equally likely. Raises ReplayError if the source cannot be used, or if it has no such
    decision.
    """
    random = Random(seed)
    with open_source(source) as opened:
        changes = _Search(opened, random).changes()
        possible = [how for how in hows or KINDS if how in changes]
        if not possible:
            raise ReplayError(f"{source} has no decision that could be changed")
        change = changes[random.choice(possible)]
        copy_all_but_logs(source, target)
        for log in opened.server.logs:
            write_again(log, target, _changed(transactions_of(log.path), change))
    return change.corruption


def _changed(transactions: Iterable[Transaction], change: _Change) -> Iterator[Transaction]:
    at, shifted_to = change.corruption.zxid, change.shifted_to
    for transaction in transactions:
        if transaction.zxid == at:
            yield from (structs.replace(one, digest=None) for one in change.instead)
        elif at < transaction.zxid < shifted_to:
            yield structs.replace(transaction, zxid=transaction.zxid + 1, digest=None)
        elif transaction.zxid != shifted_to:
            yield structs.replace(transaction, digest=None)


class _Search:
    """Iterates over an incident and keeps one random change for each of KINDS."""

    def __init__(self, source: Source, random: Random) -> None:
        self._random = random
        self._incident = IncidentTransactions(source)
        self._log_starts = {log.zxid for log in source.server.logs}
        self._last_zxid = max(
            (one.zxid for log in source.server.logs for one in transactions_of(log.path)), default=0
        )
        self._ids_path = self._incident.chroot + BROKER_IDS
        self._found: dict[str, tuple[_Change, int]] = {}
        self._counts: Counter[str] = Counter()
        self._last_of_term: dict[int, int] = {}
        self._doubles: list[tuple[Transaction, DecisionObserved]] = []

    def changes(self) -> Mapping[str, _Change]:
        """One change for each of KINDS for which the incident has a decision."""
        for transaction in self._incident:
            self._make_room(transaction)
            found = self._incident.decisions.classify(transaction)
            multi = transaction.content
            if (
                isinstance(found, DecisionObserved)
                and not found.error
                and not found.warm
                and isinstance(multi, Multi)
            ):
                self._last_of_term[found.epoch] = transaction.zxid
                if isinstance(multi.operations[0], Check):
                    self._decision(transaction, multi, found)
                elif found.what == "election":
                    self._election(transaction, multi, found)
        self._keep_doubled(_AFTER_ALL)
        return {how: self._with_last_of_term(*found) for how, found in self._found.items()}

    def _with_last_of_term(self, change: _Change, epoch: int) -> _Change:
        is_last = self._last_of_term[epoch] == change.corruption.zxid
        corruption = structs.replace(change.corruption, is_last_of_term=is_last)
        return structs.replace(change, corruption=corruption)

    def _decision(self, transaction: Transaction, multi: Multi, found: DecisionObserved) -> None:
        if transaction.zxid != self._last_zxid:
            # Without its last transaction the log would only end earlier.
            self._keep("dropped", transaction, found, ())
        error = Error(_NO_NODE)
        blank = structs.replace(transaction, type=int(OpCode.ERROR), content=error)
        self._keep("blanked", transaction, found, (blank,))
        self._doubles.append((transaction, found))
        place, written = _first_write(multi)
        if not isinstance(written, Create | SetData) or not self._is_edited(written, found):
            return
        for how, edit in _EDITS[found.what].items():
            data = self._edited(written.data, edit)
            if data is None:
                continue
            operations = list(multi.operations)
            operations[place] = structs.replace(written, data=data)
            changed = structs.replace(
                transaction, content=structs.replace(multi, operations=tuple(operations))
            )
            # A changed ISR may be classified as a broker's own change, not as a decision.
            if self._incident.decisions.classify(changed) == found:
                self._keep(how, transaction, found, (changed,), data)

    def _election(self, transaction: Transaction, multi: Multi, found: DecisionObserved) -> None:
        """Change one of the two writes."""
        data: bytes | None
        for place, one in enumerate(multi.operations):
            if isinstance(one, SetData) and one.path.endswith(CONTROLLER_EPOCH):
                how, data = "epoch", b"%d" % (found.epoch + 1)
            elif isinstance(one, Create) and one.path.endswith(CONTROLLER):
                how, data = "brokerid", self._edited(one.data, _change_controller)
            else:
                continue
            if data is not None:
                operations = list(multi.operations)
                operations[place] = structs.replace(one, data=data)
                content = structs.replace(multi, operations=tuple(operations))
                changed = structs.replace(transaction, content=content)
                self._keep(how, transaction, found, (changed,), data)
        if transaction.zxid != self._last_zxid:
            # Without its last transaction the log would only end earlier.
            self._keep("dropped", transaction, found, ())

    def _is_edited(self, written: Create | SetData, found: DecisionObserved) -> bool:
        path = written.path.removeprefix(self._incident.chroot)
        return found.what in _EDITS and (
            found.what == "assignment" or partition_of_state(path) is not None
        )

    def _edited(self, data: bytes | None, edit: "_Edit") -> bytes | None:
        """The data with one field changed; None if it has no such field."""
        try:
            content = json.loads(data or b"")
            is_changed = edit(content, self._brokers(), self._random)
        except (ValueError, LookupError):
            return None
        return json.dumps(content, separators=(",", ":")).encode() if is_changed else None

    def _brokers(self) -> Sequence[int]:
        """The brokers that are registered."""
        try:
            return sorted(map(int, self._incident.state.tree.children(self._ids_path)))
        except Refused:
            return ()

    def _make_room(self, transaction: Transaction) -> None:
        """Handle a transaction between a decision and the zxid that makes room for its duplicate.

        Brokers' logs contain the zxids of registrations, and files are named by their first zxid;
        these must not be shifted.
        """
        if isinstance(transaction.content, Error):
            self._keep_doubled(transaction.zxid)
        elif transaction.zxid in self._log_starts or self._registers(transaction):
            self._doubles.clear()

    def _registers(self, transaction: Transaction) -> bool:
        content = transaction.content
        operations = content.operations if isinstance(content, Multi) else (content,)
        return any(
            isinstance(one, Create) and one.path.startswith(f"{self._ids_path}/")
            for one in operations
        )

    def _keep_doubled(self, shifted_to: int) -> None:
        for transaction, found in self._doubles:
            again = structs.replace(transaction, zxid=transaction.zxid + 1)
            _, written = _first_write(transaction.content)
            data = written.data if isinstance(written, Create | SetData) else None
            self._keep("doubled", transaction, found, (transaction, again), data, shifted_to)
        self._doubles.clear()

    def _keep(
        self,
        how: str,
        transaction: Transaction,
        found: DecisionObserved,
        instead: tuple[Transaction, ...],
        after: bytes | None = None,
        shifted_to: int = _NO_ZXID,
    ) -> None:
        """Keep this change or the previous one of the same `how`, each with the right
        probability."""
        self._counts[how] += 1
        if self._random.randrange(self._counts[how]):
            return
        _, written = _first_write(transaction.content)
        before = written.data if isinstance(written, Create | SetData) else None
        corruption = Corruption(
            how, found.zxid, found.what, _path(written), _text(before), _text(after), False
        )
        self._found[how] = _Change(corruption, instead, shifted_to), found.epoch


def _first_write(content: object) -> tuple[int, Operation | None]:
    """The first operation of a multi that writes, and its place."""
    operations = content.operations if isinstance(content, Multi) else ()
    return next(
        ((place, one) for place, one in enumerate(operations) if not isinstance(one, Check)),
        (0, None),
    )


def _path(operation: Operation | None) -> str:
    match operation:
        case Create() | CreateTtl() | CreateContainer() | Delete() | SetData() | SetAcl():
            return operation.path
        case _:
            return ""


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


# Changes of one field of a znode's content, given the registered brokers. Each returns whether it
# changed something.

_Edit = Callable[[_Json, Sequence[int], Random], bool]


def _change_leader(state: _Json, brokers: Sequence[int], random: Random) -> bool:
    others = {*brokers, *state["isr"], NO_LEADER} - {state["leader"]}
    state["leader"] = random.choice(sorted(others))
    return True


def _change_controller(controller: _Json, brokers: Sequence[int], random: Random) -> bool:
    others = sorted({*brokers} - {controller["brokerid"]})
    if others:
        controller["brokerid"] = random.choice(others)
    return bool(others)


def _change_isr(state: _Json, brokers: Sequence[int], random: Random) -> bool:
    return _add_or_remove(state["isr"], brokers, random)


def _change_number(name: str) -> _Edit:
    def edit(state: _Json, _: Sequence[int], random: Random) -> bool:
        state[name] += random.choice((1, -1)) if state[name] > 0 else 1
        return True

    return edit


def _change_replicas(topic: _Json, brokers: Sequence[int], random: Random) -> bool:
    replicas = random.choice(list(topic["partitions"].values()))
    others = sorted({*brokers} - {*replicas})
    if others:
        replicas[random.randrange(len(replicas))] = random.choice(others)
    return bool(others)


def _change_partial(name: str) -> _Edit:
    """An edit of the adding or removing replicas of one partition."""

    def edit(topic: _Json, brokers: Sequence[int], random: Random) -> bool:
        of_partitions = topic[name]
        partition = random.choice(list(topic["partitions"]))
        replicas = of_partitions.setdefault(partition, [])
        if len(replicas) == 1 and random.random() < 0.5:
            del of_partitions[partition]
            return True
        return _add_or_remove(replicas, brokers, random)

    return edit


def _add_or_remove(members: list[int], brokers: Sequence[int], random: Random) -> bool:
    """Add a broker, or remove one unless it is the last."""
    others = sorted({*brokers} - {*members})
    if len(members) > 1 and (not others or random.random() < 0.5):
        members.remove(random.choice(members))
    elif others:
        members.append(random.choice(others))
    else:
        return False
    return True


_EDITS: Final[Mapping[str, Mapping[str, _Edit]]] = {
    "partition_state": {
        "leader": _change_leader,
        "isr": _change_isr,
        "leader_epoch": _change_number("leader_epoch"),
        "controller_epoch": _change_number("controller_epoch"),
    },
    "assignment": {
        "replicas": _change_replicas,
        "adding_replicas": _change_partial("adding_replicas"),
        "removing_replicas": _change_partial("removing_replicas"),
    },
}

KINDS: Final = (
    *(how for edits in _EDITS.values() for how in edits),
    "epoch",
    "brokerid",
    "dropped",
    "blanked",
    "doubled",
)
"""The ways to change a decision: a field is changed; the decision is dropped, so that its zxid is
missing, or replaced by an error; or it is duplicated directly after itself."""
