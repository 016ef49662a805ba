"""Where a log shows the cluster: in the terms of the daemon that wrote it."""

from eventstore.errors import LogError
from eventstore.reader import LogReader
from replay.cluster_view.views import ClusterView
from replay.logs.notices import notices


def events_to_choose(reader: LogReader, cluster: ClusterView) -> str:
    """The events to choose if the daemon is not the controller after this one, as "choose event 6
    or a later one"; "" if it is the controller. Raises ReplayError."""
    if cluster.controller.role != "standby":
        return ""
    ended = begins = 0
    try:
        for record, notice in notices(reader):
            if notice.code == "resigned" and record.cause <= cluster.seq:
                ended = record.cause
            elif notice.code == "elected" and record.cause > cluster.seq:
                begins = record.cause
                break
    except LogError:
        # Damage is reported where the damaged events are read.
        pass
    choices = [f"an event before {ended}"] if ended else []
    choices += [f"event {begins} or a later one"] if begins else []
    if not choices:
        return "choose another log, because this one shows no term of its daemon"
    return f"choose {', or '.join(choices)}"
