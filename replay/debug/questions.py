"""The subjects of `why` in the debugger: those that the event at the cursor suggests, and others by
their names."""

from replay.cluster_view.views import ClusterView
from replay.debug.event_view import EventView
from replay.errors import ReplayError
from replay.inspect.changes import Change
from replay.names import BROKER, broker_name, find_broker, is_broker, partition_named
from replay.why.subject import Subject

CONTROLLER = "controller"
_PARTITION = "partition "


def subjects_to_explain(event: EventView, changes: list[Change], after: ClusterView) -> list[str]:
    """The names to offer: changed partitions and brokers first, then those of the event and its
    decisions that exist, then the controller."""
    changed = [one.subject for one in changes]
    names = [one.removeprefix(_PARTITION) for one in changed if one.startswith(_PARTITION)]
    names += [one for one in changed if is_broker(one)]
    known = {one.name for one in after.partitions()} | {one.name for one in after.topics}
    known |= {broker_name(one.id) for one in after.brokers}
    names += [one for one in event.subjects if one in known]
    return [*dict.fromkeys(names), CONTROLLER]


def subject_named(name: str, after: ClusterView) -> Subject:
    """The question about a name of `subjects_to_explain`, or about another one that a user typed.
    Raises ReplayError."""
    if name == CONTROLLER:
        return Subject()
    if name.startswith(BROKER):
        broker = find_broker(name)
        if broker is None:
            id = name.removeprefix(BROKER)
            raise ReplayError(f"{name}: {id} is not the id of a broker")
        return Subject(broker=broker)
    if after.topic(name) is not None:
        return Subject(topic=name)
    try:
        return Subject(*partition_named(name))
    except ValueError:
        # The topic may have been deleted.
        return Subject(topic=name)
