"""Where a log shows the cluster: in the terms of the daemon that wrote it."""

from eventstore.errors import LogError
from eventstore.reader import LogReader
from replay.cluster_view.views import ClusterView
from replay.errors import ReplayError
from replay.logs.notices import notices


def events_to_choose(reader: LogReader, cluster: ClusterView) -> str:
    """The events to choose if the daemon is not the controller after this one, as "choose event 6
    or a later one"; "" if it is the controller. Raises ReplayError."""
    if cluster.controller.role != "standby":
        return ""
    return _choices(reader, cluster) or (
        "choose another log, because this one shows no term of its daemon"
    )


def end_of_term(reader: LogReader, cluster: ClusterView) -> int:
    """The event that ended the daemon's last term, if the daemon is not the controller any more; 0
    otherwise. The event before it is the last one at which the log shows the cluster. Raises
    ReplayError."""
    return _terms_around(reader, cluster.seq)[0] if cluster.controller.role == "standby" else 0


def since_when_unknown(event: int) -> str:
    """A sentence for a report about the last event of a term, which ended with this event."""
    return (
        f"the daemon has not been controller since event {event}, so this is the cluster at the "
        "last event before it; the log does not show later changes"
    )


def unknown_cluster(log: str, reader: LogReader, cluster: ClusterView) -> ReplayError:
    """The error for a moment at which the daemon is not the controller. Raises ReplayError."""
    choices = _choices(reader, cluster)
    if not choices:
        return ReplayError(
            f"{log}: its daemon was never controller, so the log does not show the cluster: use "
            "the log of the active daemon, or --zookeeper"
        )
    return ReplayError(
        f"{log}: the daemon is not the controller at event {cluster.seq}, so its log does not show "
        f"the cluster: {choices} with --at"
    )


def _choices(reader: LogReader, cluster: ClusterView) -> str:
    ended, begins = _terms_around(reader, cluster.seq)
    choices = [f"an event before {ended}"] if ended else []
    choices += [f"event {begins} or a later one"] if begins else []
    return f"choose {', or '.join(choices)}" if choices else ""


def _terms_around(reader: LogReader, seq: int) -> tuple[int, int]:
    """The event that ended the last term before an event, and the one that begins the next term; 0:
    none. Raises ReplayError."""
    ended = 0
    try:
        for record, notice in notices(reader):
            if notice.code == "resigned" and record.cause <= seq:
                ended = record.cause
            elif notice.code == "elected" and record.cause > seq:
                return ended, record.cause
    except LogError:
        # Damage is reported where the damaged events are read.
        pass
    return ended, 0
