"""What becomes of partitions while a version goes its way, as its controller knows it."""

from collections.abc import Sequence

from controller.core.controller import Controller
from controller.core.state import Partition
from controller.core.values import NO_LEADER
from replay.diff.messages import PartitionTimeline, Sample


class Courses:
    """The partitions that are wanted; looked at after each event."""

    def __init__(self, wanted: Sequence[tuple[str, int]]) -> None:
        self._moments: dict[tuple[str, int], list[Sample]] = {one: [] for one in wanted}

    def look(self, controller: Controller, time_ns: int) -> None:
        """Note what has changed. Nothing is known while another is controller."""
        if not self._moments or not controller.context.is_loaded:
            return
        for (topic, number), moments in self._moments.items():
            now = _moment(controller, controller.context.find(topic, number), time_ns)
            if not moments or moments[-1] != _at(now, moments[-1].time_ns):
                moments.append(now)

    def result(self) -> list[PartitionTimeline]:
        """All that was seen."""
        return [PartitionTimeline(*name, moments) for name, moments in self._moments.items()]


def _moment(controller: Controller, partition: Partition | None, time_ns: int) -> Sample:
    state = partition.leadership if partition is not None else None
    if partition is None or state is None:
        replicas = partition.replicas if partition is not None else ()
        return Sample(time_ns, NO_LEADER, (), replicas, is_online=False)
    return Sample(
        time_ns,
        state.leader,
        state.isr,
        partition.replicas,
        is_online=state.leader >= 0 and not controller.context.has_offline_leader(partition),
        is_reassigned=partition.assignment.is_being_reassigned,
    )


def _at(moment: Sample, time_ns: int) -> Sample:
    return Sample(
        time_ns,
        moment.leader,
        moment.isr,
        moment.replicas,
        moment.is_online,
        moment.is_reassigned,
    )
