"""Replaces the names in the fields of events and commands."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.features import UpdateFeaturesResponse
from controller.core.events import ChildrenRead, ZnodesRead
from replay.redaction import places
from replay.redaction.names import Names
from replay.stock_clusters.imported_log.events import RequestServed, ZnodesRestored
from replay.stock_clusters.zookeeper_log.transactions import Transaction, ZooKeeperAcl

_TEXTS: Final = (
    "cause",
    "text",
    "reason",
    "message",
    "subject",
    "source",
    "snapshot",
    "client",
    "notes",
)
_KINDS: Final[Mapping[str, str]] = {
    "path": "path",
    "paths": "path",
    "topic": "topic",
    "host": "host",
    "rack": "rack",
    "user": "principal",
    "principal": "principal",
    "client_id": "principal",
    "feature": "feature",
    "super_users": "principal",
    # The digest of a credential (controller.event_log.secret_digests), which becomes a value.
    "credential": "value",
    # An address, or the folder of a server's files.
    "server": "server",
    "undeleted": "topic",
    **dict.fromkeys(_TEXTS, "text"),
}
"""The kind of the strings in a field, by the name of the field."""
_ROWS: Final[Mapping[str, tuple[str, ...]]] = {
    "partitions": ("topic",),
    "remaining": ("topic",),
    # A topic's name or id: it depends on the version of the request.
    "partition_errors": ("known",),
    "configs": ("config key", "value"),
    "live_leaders": ("none", "host"),
}
_OF_TOPICS: Final = ("NewTopic", "CreatedTopic", "TopicToDelete", "DeletedTopic", "TopicResult")
"""The types that have a topic's name in a field "name"."""
_OPERATIONS: Final = ("Create", "CreateSequential", "CreateTtl", "CreateContainer", "SetData")
_FIRST_BY_TOPIC_ID: Final = 2


def znodes_read(names: Names, event: ZnodesRead, paths: Sequence[str]) -> ZnodesRead:
    """The outcome of a read; `paths` are those of the command."""
    data = [
        places.znode(names, paths[event.offset + number], one)
        for number, one in enumerate(event.data)
    ]
    return structs.replace(event, data=data)


def children_read(names: Names, event: ChildrenRead, path: str) -> ChildrenRead:
    """The outcome of listing the children of `path`."""
    children = [places.child(names, path, one) for one in event.children]
    return structs.replace(event, children=children)


def value(names: Names, found: Any, field: str = "") -> Any:
    """Any other event or command, or a value in one."""
    if isinstance(found, Struct):
        return _special(names, found) or _fields(names, found)
    if isinstance(found, str):
        return places.string(names, _KINDS.get(field, "none"), found)
    if isinstance(found, (list, tuple)) and not hasattr(found, "_fields"):
        kind = list if isinstance(found, list) else tuple
        if field in _ROWS and found and isinstance(found[0], (list, tuple)):
            return kind(places.row(names, _ROWS[field], one) for one in found)
        return kind(value(names, one, field) for one in found)
    return found


def _fields(names: Names, found: Struct) -> Any:
    changed = {}
    for field in found.__struct_fields__:
        before = getattr(found, field)
        named = "topic" if field == "name" and type(found).__name__ in _OF_TOPICS else field
        after = value(names, before, named)
        if after is not before:
            changed[field] = after
    if type(found).__name__ in _OPERATIONS:
        changed["data"] = places.znode(names, found.path, found.data)  # type: ignore[attr-defined]
    return structs.replace(found, **changed) if changed else found


def _special(names: Names, found: Struct) -> Any:
    """The types for which the names of the fields are not enough; None for others."""
    match found:
        case AlterPartitionReceived(version=version) if version >= _FIRST_BY_TOPIC_ID:
            return structs.replace(found, client=value(names, found.client))
        case UpdateFeaturesResponse(message=message, features=features):
            # The results are about features. A topic may have the same name.
            results = [
                structs.replace(one, name=places.string(names, "feature", one.name))
                for one in features
            ]
            return structs.replace(found, message=message, features=tuple(results))
        case ZooKeeperAcl(scheme=scheme, id=id) if scheme not in ("world", "auth"):
            return structs.replace(found, id=places.principal(names, id))
        case Transaction(content=content):
            # The digest is that of the tree with the original names.
            return structs.replace(found, content=value(names, content), digest=None)
        case ZnodesRestored(paths=paths, data=data):
            return structs.replace(
                found,
                paths=[places.path(names, one) for one in paths],
                data=[
                    places.znode(names, path, one) or b""
                    for path, one in zip(paths, data, strict=True)
                ],
            )
        case RequestServed():
            return structs.replace(
                found,
                client=places.principal(names, found.client),
                connection=_connection(names, found.connection),
                request=places.json(names, found.request, places.REQUEST),
                response=places.json(names, found.response, places.REQUEST),
            )
        case _:
            return None


def _connection(names: Names, text: str) -> str:
    """A connection, "10.0.0.1:9092-10.0.0.2:53322-3": both addresses and a number."""
    parts = text.split("-")
    if len(parts) != 3:
        return names.text(text)
    return "-".join(places.string(names, "server", one) for one in parts)
