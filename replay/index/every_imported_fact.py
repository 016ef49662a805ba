"""Notes the facts about all subjects of an imported log, so that those about any one subject can be
selected later. They are those of replay.why.imported for this subject alone."""

from collections.abc import Iterator
from typing import ClassVar, Final

from msgspec import structs

from controller.core.commands import Issued, WriteAtomically, WriteZnodes
from controller.core.election import Elected
from controller.core.state import Partition
from controller.core.values import LeaderAndIsr
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.checkpoint import AppendOnly
from replay.index.every_fact import EVERYTHING, WHOLE, PlacedFact, places_of_fact
from replay.shadow_folds import ShadowCommand
from replay.subjects import ZnodeSubject
from replay.why.facts import AnyFact, CancelZnodeObserved, TopicChanged
from replay.why.imported import is_only_in_fold
from replay.why.shadow_observer import ShadowFactObserver
from replay.why.subject import Subject
from replay.why.znode_history import ZnodeHistory

_ANY_PARTITION: Final = ""
"""In place of a partition in facts about /admin/reassign_cancel, which concern each one."""


class AllSubjectsShadowObserver(ShadowFactObserver):
    """Notes the facts of one shadow fold that no transaction shows, and the commands that the
    decisions of the log are compared with."""

    STATE: ClassVar[tuple[str, ...]] = (*ShadowFactObserver.STATE, "commands", "_replicas")

    def __init__(self, trace: ControllerTrace) -> None:
        super().__init__(trace, EVERYTHING)
        self.notes_accepted_isr = True
        self.commands: AppendOnly[ShadowCommand] = AppendOnly()
        self._replicas: AppendOnly[tuple[int, tuple[int, ...]]] = AppendOnly()
        """The replicas of partitions whose leader was elected, by the place of the fact."""

    def add(self, kind: type[AnyFact], **fields: object) -> None:
        super().add(kind, **fields)
        if not is_only_in_fold(self.facts[-1]):
            del self.facts[-1]

    def note_request(self, partition: str, target: tuple[int, ...], by: str) -> bool:
        """Note nothing: transactions show the requests in znodes."""
        return True

    def elects(
        self, partition: Partition, rule: str, current: LeaderAndIsr, elected: Elected
    ) -> None:
        self._replicas.append((len(self.facts), partition.replicas))
        super().elects(partition, rule, current, elected)

    def issues(self, issued: Issued) -> None:
        """Note the writes, and a command of each controller event."""
        command = ShadowCommand.from_fold(self._shadow, issued)
        last = self.commands[-1] if self.commands else None
        is_first = last is None or (last.since, last.cause) != (command.since, command.cause)
        if is_first or isinstance(issued.command, WriteZnodes | WriteAtomically):
            self.commands.append(command)
        super().issues(issued)

    def placed_facts(self) -> Iterator[PlacedFact]:
        """The facts, with the places where they belong."""
        replicas = dict(self._replicas)
        for number, one in enumerate(self.facts):
            yield PlacedFact(places_of_fact(one, replicas.get(number, ())), one)


class AllSubjectsZnodeHistory(ZnodeHistory):
    """Notes the facts about all subjects. `take_facts` must be called after each record."""

    def covers_moves(self, znode: ZnodeSubject) -> bool:
        return znode.partition is not None

    def cancelled_partitions(self) -> list[str]:
        return [_ANY_PARTITION]

    def take_facts(self) -> list[AnyFact]:
        """The facts of the last record."""
        taken, self.facts = self.facts, []
        return taken


def placed_znode_fact(fact: AnyFact) -> PlacedFact:
    """A fact of a transaction, with the places where it belongs."""
    if isinstance(fact, TopicChanged):
        # An observer of another topic does not note it.
        return PlacedFact([(fact.topic, WHOLE)], fact)
    return PlacedFact(places_of_fact(fact, ()), fact)


def about(fact: AnyFact, subject: Subject) -> AnyFact:
    """A fact as an observer of the subject alone notes it."""
    if type(fact) is CancelZnodeObserved:
        return structs.replace(fact, partition=f"{subject.topic}-{subject.partition}")
    return fact
