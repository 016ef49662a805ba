"""What there is to answer a question from."""

from msgspec import Struct, field

from replay.inspect.cluster import Cluster, PartitionView
from replay.why.facts import AnyFact
from replay.why.subject import Subject


class History(Struct):
    """The facts about a subject up to event `seq`, oldest first, and the cluster then.

    Where nobody was controller at that moment (a recorded log's daemon had resigned) `cluster` is
    as it was known last; `notes` say so, and what else limits the answer.
    """

    subject: Subject
    cluster: Cluster
    facts: list[AnyFact]
    notes: list[str] = field(default_factory=list)

    def view(self) -> PartitionView | None:
        """The partition that is asked about, as it is."""
        topic, number = self.subject.topic, self.subject.partition
        if topic is None or number is None:
            return None
        return self.cluster.partition(topic, number)
