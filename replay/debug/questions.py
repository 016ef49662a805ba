"""The subjects that the event at the cursor suggests to ask `why` about."""

from replay.cluster_view.views import Cluster
from replay.debug.moments import Moment
from replay.inspect.changes import Change
from replay.subjects import broker_named, partition_named
from replay.why.subject import Subject

CONTROLLER = "controller"
_PARTITION, _BROKER = "partition ", "broker "


def subjects_to_explain(moment: Moment, changes: list[Change], after: Cluster) -> list[str]:
    """The names to offer: changed partitions and brokers first, then those of the event and its
    decisions that exist, then the controller."""
    changed = [one.subject for one in changes]
    names = [one.removeprefix(_PARTITION) for one in changed if one.startswith(_PARTITION)]
    names += [one for one in changed if one.startswith(_BROKER)]
    known = {one.name for one in after.partitions()} | {one.name for one in after.topics}
    known |= {f"{_BROKER}{one.id}" for one in after.brokers}
    names += [one for one in moment.subjects if one in known]
    return [*dict.fromkeys(names), CONTROLLER]


def subject_named(name: str, after: Cluster) -> Subject:
    """The question about a name of `subjects_to_explain`."""
    if name == CONTROLLER:
        return Subject()
    if name.startswith(_BROKER):
        return Subject(broker=broker_named(name))
    if after.topic(name) is not None:
        return Subject(topic=name)
    topic, number = partition_named(name)
    return Subject(topic, number)
