"""A record of an imported log in words."""

from replay.description.commands import content
from replay.description.error_names import zookeeper_error_name
from replay.description.phrases import first_few, session_name
from replay.stock_clusters.imported_log import events
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    CloseSession,
    Create,
    CreateContainer,
    CreateSession,
    CreateTtl,
    Delete,
    Error,
    Multi,
    Operation,
    SessionEnd,
    SetAcl,
    SetData,
    Transaction,
)
from replay.znode_tree.paths import below


def imported_event_in_words(event: events.ImportedEvent, chroot: str) -> str:
    """The content of a record, in one line."""
    match event:
        case Transaction(session=session):
            return f"{session_name(session)}: {transaction_in_words(event, chroot)}"
        case events.DecisionObserved(what=what, who=who, epoch=epoch, zxid=zxid):
            return f"transaction 0x{zxid:x} is a decision of {who}, epoch {epoch}: {what}"
        case events.RequestInferred(zxid=zxid, broker=broker):
            return f"transaction 0x{zxid:x} carries out a request to broker {broker}"
        case events.ControllerLogged(broker=broker, text=text):
            return f"broker {broker}, controller.log: {text}"
        case events.StateChangeLogged(broker=broker, text=text):
            return f"broker {broker}, state-change.log: {text}"
        case events.RequestServed(broker=broker, api=api, version=version, client=client):
            return f"broker {broker} served {api} version {version} of client {client}"
        case events.ImportBegun(source=source, server=server, zxid=zxid):
            return f"the log begins after transaction 0x{zxid:x}, from {server} of {source}"
        case events.SessionsRestored(sessions=sessions):
            return f"{len(sessions)} sessions exist"
        case events.ZnodesRestored(paths=paths):
            return f"{len(paths)} znodes exist"
        case events.SessionsGone(sessions=sessions):
            return f"{len(sessions)} sessions are gone"
        case events.ZnodesGone(paths=paths):
            gone = first_few(_in_kafka(path, chroot) for path in paths)
            return f"{len(paths)} znodes are gone: {gone}"
        case events.ImportResumed(snapshot=snapshot):
            return f"after missing transactions the whole state is known again, from {snapshot}"
        case events.TransactionsMissing(after=after, before=before):
            return f"transactions between 0x{after:x} and 0x{before:x} are missing"
        case events.ImportEnded(damages=damages):
            return f"the source ends here; it has {len(damages)} damages"


def transaction_in_words(transaction: Transaction, chroot: str) -> str:
    """The changes of a transaction."""
    match transaction.content:
        case CreateSession(timeout_ms=timeout_ms):
            return f"begins, time-out {timeout_ms} ms"
        case CloseSession(paths=paths):
            how = "expires" if transaction.session_end is SessionEnd.EXPIRED else "ends"
            gone = [_in_kafka(path, chroot) for path in paths or ()]
            return f"{how}{f', which deletes {first_few(gone)}' if gone else ''}"
        case Multi(operations=operations, error=error):
            writes = [_operation(one, chroot) for one in operations if not isinstance(one, Error)]
            refused = f"refused with {zookeeper_error_name(error)}"
            if not writes:
                return f"several writes, {refused}"
            return f"multi: {first_few(writes)}{f'; {refused}' if error else ''}"
        case content:
            return _operation(content, chroot)


def _operation(one: Operation, chroot: str) -> str:
    match one:
        case Create() | CreateTtl() | CreateContainer():
            path = _in_kafka(one.path, chroot)
            return f"create {path}{content(path, one.data)}"
        case SetData(path=path, data=data, version=version):
            path = _in_kafka(path, chroot)
            return f"set {path}, new version {version}{content(path, data)}"
        case Delete(path=path):
            return f"delete {_in_kafka(path, chroot)}"
        case SetAcl(path=path):
            return f"set the ACLs of {_in_kafka(path, chroot)}"
        case Check(path=path, version=version):
            return f"check {_in_kafka(path, chroot)} version {version - 1}"
        case Error(code=code):
            return f"refused with {zookeeper_error_name(code)}"


def _in_kafka(path: str, chroot: str) -> str:
    """A path without the chroot; a path outside of the chroot is returned unchanged."""
    return below(path, chroot) or path
