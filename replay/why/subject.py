"""What is asked about."""

from msgspec import Struct

from controller.core.values import LeaderAndIsr


class Subject(Struct, frozen=True):
    """A partition, a topic, a broker or a term: what of them is given. A broker with a partition
    means its replica. `is_reassignment`: the partition's reassignment is meant."""

    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    term: int | None = None
    is_reassignment: bool = False

    @property
    def is_of_role(self) -> bool:
        """Whether it is asked who was controller."""
        return self.topic is None and self.broker is None

    def wants(self, topic: str, number: int) -> bool:
        """Whether what becomes of a partition belongs to the answer."""
        if self.topic is not None:
            return topic == self.topic and self.partition in (None, number)
        return self.broker is not None

    def wants_state(self, before: LeaderAndIsr | None, after: LeaderAndIsr) -> bool:
        """Whether a change of a wanted partition's state does: of a broker it must be about it."""
        if self.topic is not None or self.broker is None:
            return True
        was = (False, False) if before is None else _place(before, self.broker)
        return was != _place(after, self.broker)


def _place(state: LeaderAndIsr, broker: int) -> tuple[bool, bool]:
    """Whether a broker leads, and whether it is in sync."""
    return state.leader == broker, broker in state.isr
