"""The known shapes of znode paths and of the content of znodes: what is a name, and of which kind.

Whatever has no known shape is replaced as a whole, as a foreign word.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller.core import znodes
from controller.core.znodes.acls import (
    EXTENDED_ACL_CHANGES,
    LITERAL_ACL_CHANGES,
    LITERAL_ACLS,
    PREFIXED_ACLS,
)
from controller.core.znodes.brokers import SECURITY_PROTOCOLS

KNOWN_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "cluster": frozenset(("kafka-cluster",)),
    "entity type": frozenset(("topics", "users", "clients", "ips", "brokers")),
    "feature": frozenset(
        (
            *("metadata.version", "kraft.version", "group.version", "transaction.version"),
            "eligible.leader.replicas.version",
        )
    ),
    "operation": frozenset(
        (
            *("All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction"),
            *("DescribeConfigs", "AlterConfigs", "IdempotentWrite"),
            *("CreateTokens", "DescribeTokens"),
        )
    ),
    "pattern type": frozenset(("LITERAL", "PREFIXED")),
    "permission": frozenset(("Allow", "Deny")),
    "protocol": frozenset(SECURITY_PROTOCOLS),
    "resource type": frozenset(
        (
            *("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User"),
            *("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"),
        )
    ),
}
"""The kinds of words that Kafka chooses, with these words."""


class JsonShape(Struct, frozen=True):
    """The shape of JSON: the kinds of the strings below each key ("plain" for a number or another
    word of no kind), and of the keys of the objects below a key."""

    strings: Mapping[str, str] = {}
    keys: Mapping[str, str] = {}


def _content(plain: str = "", keys: Mapping[str, str] | None = None, **kinds: str) -> JsonShape:
    return JsonShape({**dict.fromkeys(plain.split(), "plain"), **kinds}, keys or {})


UNKNOWN: Final = JsonShape()
"""The shape of content that Kafka does not have."""

_PARTITIONS: Final = _content(
    "version partition replicas original_replicas log_dirs", topic="topic", partitions="any"
)
"""A string in place of the list of partitions is what a person wrote by mistake."""
_CONFIG: Final = _content("version", {"config": "config key"}, config="value")
_ACLS: Final = _content(
    "version acls",
    principal="principal",
    host="host",
    permissionType="permission",
    operation="operation",
)
_DELETION: Final = _content("version broker", {"partitions": "topic"}, partitions="any")
_TOKEN: Final = JsonShape(
    dict.fromkeys(
        (
            *("version", "owner", "renewers", "issueTimestamp", "maxTimestamp"),
            *("expiryTimestamp", "tokenId", "hmac", "tokenRequester"),
        ),
        "value",
    )
)
_CONTENTS: Final[Mapping[str, JsonShape]] = {
    f"{znodes.BROKER_IDS}/<number>": _content(
        "version port jmx_port timestamp min_version max_version min_version_level"
        " max_version_level",
        {"listener_security_protocol_map": "listener", "features": "feature"},
        host="host",
        endpoints="address",
        rack="rack",
        listener_security_protocol_map="protocol",
        features="plain",
    ),
    znodes.BROKER_SEQUENCE: UNKNOWN,
    f"{znodes.TOPICS}/<topic>": _content(
        "version partitions adding_replicas removing_replicas", topic_id="topic id"
    ),
    f"{znodes.TOPICS}/<topic>/partitions/<number>/state": _content(
        "version leader leader_epoch controller_epoch isr leader_recovery_state"
    ),
    znodes.CONTROLLER: _content("version brokerid timestamp kraftControllerEpoch"),
    znodes.CONTROLLER_EPOCH: UNKNOWN,
    znodes.CLUSTER_ID: _content("version", id="cluster id"),
    znodes.FEATURE: _content(
        "version status min_version_level max_version_level", {"features": "feature"}
    ),
    znodes.MIGRATION: _content(
        "version kraft_controller_id kraft_controller_epoch kraft_metadata_offset"
        " kraft_metadata_epoch"
    ),
    znodes.PRODUCER_IDS: _content("version broker block_start block_end"),
    f"{znodes.DELETE_TOPICS}/<topic>": UNKNOWN,
    znodes.PREFERRED_ELECTION: _PARTITIONS,
    znodes.REASSIGN_PARTITIONS: _PARTITIONS,
    znodes.REASSIGN_PARTITIONS_EXTRA: _PARTITIONS,
    znodes.REASSIGN_CANCEL: _content("version force"),
    f"{znodes.REASSIGNMENT_REQUESTS}/request_<number>": _content(
        "version legacy controller_epoch", {"assignments": "topic"}, assignments="any"
    ),
    f"{znodes.REPLICA_DELETIONS}/requested_<number>": _DELETION,
    f"{znodes.REPLICA_DELETIONS}/<deletion>": _DELETION,
    f"{znodes.REASSIGNMENTS}/<topic>/<number>": _content(
        "version replicas top legacy original_replicas api leader_epoch"
    ),
    f"{znodes.ISR_CHANGES}/isr_change_<number>": _PARTITIONS,
    f"{znodes.LOG_DIR_EVENTS}/log_dir_event_<number>": _content("version broker event"),
    f"{znodes.CONFIG_CHANGES}/config_change_<number>": _content(
        "version", entity_path="entity", entity_name="any", entity_type="entity type"
    ),
    f"{znodes.TOPIC_CONFIGS}/<topic>": _CONFIG,
    f"{znodes.BROKER_CONFIGS}/<broker>": _CONFIG,
    f"{znodes.USER_CONFIGS}/<principal>/clients/<principal>": _CONFIG,
    f"{znodes.CLIENT_CONFIGS}/<principal>": _CONFIG,
    f"{znodes.IP_CONFIGS}/<host>": _CONFIG,
    **{
        f"{parent}/{kind}/<{name}>": _ACLS
        for parent, topic in ((LITERAL_ACLS, "topic"), (PREFIXED_ACLS, "prefix"))
        for kind, name in (
            ("Topic", topic),
            ("Cluster", "cluster"),
            *(
                (one, "principal")
                for one in ("Group", "TransactionalId", "DelegationToken", "User")
            ),
        )
    },
    f"{LITERAL_ACL_CHANGES}/acl_changes_<number>": UNKNOWN,
    f"{EXTENDED_ACL_CHANGES}/acl_changes_<number>": _content(
        "version", name="prefix", resourceType="resource type", patternType="pattern type"
    ),
    # Owners, renewers and the secrets of tokens.
    f"{znodes.DELEGATION_TOKENS}/<foreign>": _TOKEN,
    f"{znodes.DELEGATION_TOKEN_CHANGES}/token_change_<number>": UNKNOWN,
    f"{znodes.CONSUMERS}/<principal>/ids/<foreign>": _content(
        "version pattern timestamp", {"subscription": "topic"}
    ),
    f"{znodes.CONSUMERS}/<principal>/offsets/<topic>/<number>": UNKNOWN,
    f"{znodes.CONSUMERS}/<principal>/owners/<topic>/<number>": UNKNOWN,
    "/zookeeper/config": UNKNOWN,
    "/zookeeper/quota": UNKNOWN,
}
"""By path. In angle brackets: the kind of a name, which may follow the same characters."""


class ZnodeShape(Struct):
    """A znode of the known shape: its children by name, those with names of a kind, its content."""

    children: dict[str, "ZnodeShape"] = {}
    named: list[tuple[str, str, "ZnodeShape"]] = []
    """The characters before the name, its kind, and the place."""
    content: JsonShape = UNKNOWN


def _tree() -> ZnodeShape:
    root = ZnodeShape()
    for template, content in _CONTENTS.items():
        place = root
        for segment in template.split("/")[1:]:
            place = _below(place, segment)
        place.content = content
    # The configuration of a user is above that of the user's clients.
    _below(root.children["config"].children["users"], "<principal>").content = _CONFIG
    return root


def _below(place: ZnodeShape, segment: str) -> ZnodeShape:
    before, is_named, kind = segment.rstrip(">").partition("<")
    if not is_named:
        return place.children.setdefault(segment, ZnodeShape())
    for other, _, found in place.named:
        if other == before:
            return found
    found = ZnodeShape()
    place.named.append((before, kind, found))
    return found


ROOT: Final = _tree()


def words() -> Iterator[str]:
    """The words that Kafka chooses: of paths, of contents, and of the kinds of words."""
    for some in KNOWN_WORDS.values():
        yield from some
    for path, content in _CONTENTS.items():
        yield from (segment.partition("<")[0].rstrip("_") for segment in path.split("/"))
        yield from content.strings
        yield from content.keys


def steps(
    place: ZnodeShape | None, segments: list[str]
) -> Iterator[tuple[str, str, ZnodeShape | None]]:
    """For each segment of a path below `place`: the characters that remain, the kind of the rest
    ("" for no rest), and its place. None is a place of no known shape."""
    for segment in segments:
        if place is None:
            yield "", "foreign", None
        elif segment in place.children:
            place = place.children[segment]
            yield segment, "", place
        else:
            for before, kind, found in place.named:
                if segment.startswith(before):
                    place = found
                    yield before, kind, place
                    break
            else:
                place = None
                yield "", "foreign", None
