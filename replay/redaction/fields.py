"""Events and commands with the names in their fields replaced."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.events import ChildrenRead, ZnodesRead
from replay.redaction import places
from replay.redaction.names import Names
from replay.stock_clusters.imported_log.events import RequestServed, ZnodesRestored
from replay.stock_clusters.zookeeper_log.transactions import Acl, Transaction

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
    "server": "address",
    "undeleted": "topic",
    **dict.fromkeys(_TEXTS, "text"),
}
"""What the strings in a field are."""
_ROWS: Final[Mapping[str, tuple[str, ...]]] = {
    "partitions": ("topic",),
    "remaining": ("topic",),
    # By name or by id, as the version of the request has it.
    "partition_errors": ("known",),
    "configs": ("none", "text"),
    "live_leaders": ("none", "host"),
}
_OF_TOPICS: Final = ("NewTopic", "CreatedTopic", "DoomedTopic", "DeletedTopic", "TopicAnswer")
"""What has a topic's name in a field "name"."""
_OPERATIONS: Final = ("Create", "CreateTtl", "CreateContainer", "SetData")
_FIRST_BY_TOPIC_ID: Final = 2


def znodes_read(names: Names, event: ZnodesRead, paths: Sequence[str]) -> ZnodesRead:
    """`paths` are those of the command that it answers."""
    data = [
        places.znode(names, paths[event.offset + number], one)
        for number, one in enumerate(event.data)
    ]
    return structs.replace(event, data=data)


def children_read(names: Names, event: ChildrenRead, path: str) -> ChildrenRead:
    """The children of `path`."""
    children = [places.child(names, path, one) for one in event.children]
    return structs.replace(event, children=children)


def value(names: Names, found: Any, field: str = "") -> Any:
    """Anything else: events, commands, and what is in them."""
    if isinstance(found, Struct):
        return _special(names, found) or _fields(names, found)
    if isinstance(found, str):
        return places.string(names, _KINDS.get(field, "none"), found)
    if isinstance(found, (list, tuple)) and not hasattr(found, "_fields"):
        if field in _ROWS and found and isinstance(found[0], (list, tuple)):
            return type(found)(places.row(names, _ROWS[field], one) for one in found)
        return type(found)(value(names, one, field) for one in found)
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
    """What cannot be told by the names of the fields alone."""
    match found:
        case AlterPartitionReceived(version=version) if version >= _FIRST_BY_TOPIC_ID:
            return found
        case Acl(scheme=scheme, id=id) if scheme not in ("world", "auth"):
            return structs.replace(found, id=names.say("principal", id))
        case Transaction(content=content):
            # The digest is of the tree with the names in it.
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
                client=names.say("principal", found.client),
                connection=_connection(names, found.connection),
                request=places.json(names, found.request, places.REQUEST),
                response=places.json(names, found.response, places.REQUEST),
            )
        case _:
            return None


def _connection(names: Names, text: str) -> str:
    """ "10.0.0.1:9092-10.0.0.2:53322-3": both ends, and a number."""
    parts = text.split("-")
    if len(parts) != 3:
        return names.text(text)
    return "-".join(places.address(names, one) for one in parts)
