"""Znodes of the whole cluster: /cluster/id, /feature, /migration, /latest_producer_id_block."""

from typing import Final

import msgspec
from msgspec import Struct

from controller.core.errors import ZnodeError
from controller.core.znodes.schema import Int32, decode_znode

CLUSTER: Final = "/cluster"
CLUSTER_ID: Final = f"{CLUSTER}/id"
FEATURE: Final = "/feature"
MIGRATION: Final = "/migration"
"""The state of a migration to KRaft, which the daemon does not take part in."""
PRODUCER_IDS: Final = "/latest_producer_id_block"


# /cluster/id ------------------------------------------------------------------------------------


class _ClusterIdZnode(Struct, frozen=True):
    id: str


_cluster_id_decoder = msgspec.json.Decoder(_ClusterIdZnode)


def read_cluster_id(data: bytes | None) -> str | None:
    """The id of the cluster (ClusterIdZNode); None for content that cannot be used."""
    try:
        return _cluster_id_decoder.decode(data or b"").id
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


# /feature ---------------------------------------------------------------------------------------


class Features(Struct, frozen=True):
    """The content of /feature: `levels` maps a feature to its finalized max version level."""

    enabled: bool
    levels: dict[str, int] = {}
    version: int = 2


class _Level(Struct, frozen=True):
    max_version_level: Int32
    min_version_level: Int32 | None = None


class _FeatureZnode(Struct, frozen=True):
    version: Int32
    status: Int32
    features: dict[str, _Level]


_feature_decoder = msgspec.json.Decoder(_FeatureZnode)


def read_features(data: bytes | None) -> Features:
    """The content of /feature (FeatureZNode.decode, KB 1.2 item 10). Raises ZnodeError."""
    znode = decode_znode(_feature_decoder, FEATURE, "features", data)
    if znode.version not in (1, 2) or znode.status not in (0, 1):
        raise ZnodeError(f"{FEATURE}: version {znode.version}, status {znode.status} not known")
    for name, level in znode.features.items():
        lowest = level.min_version_level if znode.version == 1 else 1
        if lowest is None or lowest < 1 or level.max_version_level < lowest:
            raise ZnodeError(f"{FEATURE}: the levels of feature {name!r} make no sense")
    levels = {name: level.max_version_level for name, level in sorted(znode.features.items())}
    return Features(znode.status == 1, levels, znode.version)


def write_features(features: Features) -> bytes:
    """The content of /feature: version 2, or 1 below IBP 3.3-IV0."""
    is_first_version = features.version == 1
    levels = {
        name: {"min_version_level": 1, "max_version_level": level}
        if is_first_version
        else {"max_version_level": level}
        for name, level in features.levels.items()
    }
    znode = {"version": features.version, "status": int(features.enabled), "features": levels}
    return msgspec.json.encode(znode)


# /migration -------------------------------------------------------------------------------------


class Migration(Struct, frozen=True):
    """The content of /migration. `kraft_controller_id` is -1 before a KRaft controller was active,
    `kraft_metadata_offset` -1 before the metadata was copied."""

    version: Int32
    kraft_controller_id: Int32
    kraft_controller_epoch: Int32
    kraft_metadata_offset: int
    kraft_metadata_epoch: Int32

    @property
    def is_copied(self) -> bool:
        """Whether a KRaft controller takes the metadata as copied
        (ZkMigrationLeadershipState.initialZkMigrationComplete)."""
        return self.kraft_metadata_offset > 0


_migration_decoder = msgspec.json.Decoder(Migration)


def read_migration(data: bytes | None) -> Migration:
    """The state of a migration to KRaft (MigrationZNode.decode). Raises ZnodeError."""
    znode = decode_znode(_migration_decoder, MIGRATION, "the state of a migration", data)
    if znode.version != 0:
        raise ZnodeError(f"{MIGRATION}: version {znode.version} is not known")
    return znode


# /latest_producer_id_block ----------------------------------------------------------------------


class ProducerIds(Struct, frozen=True):
    """A block of producer ids, both bounds inclusive, and the broker that it was given to."""

    broker: int
    first: int
    last: int


class _ProducerIdsZnode(Struct, frozen=True):
    broker: Int32
    block_start: str
    block_end: str


_producer_ids_decoder = msgspec.json.Decoder(_ProducerIdsZnode)


def read_producer_ids(data: bytes) -> ProducerIds:
    """The last block that was given out (ProducerIdBlockZNode). Raises ZnodeError."""
    try:
        znode = _producer_ids_decoder.decode(data)
        return ProducerIds(znode.broker, int(znode.block_start), int(znode.block_end))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise ZnodeError(f"{PRODUCER_IDS} cannot be read: {error}: repair the znode") from error


def write_producer_ids(block: ProducerIds) -> bytes:
    """The block's znode; the bounds are strings."""
    return (
        f'{{"version":1,"broker":{block.broker},'
        f'"block_start":"{block.first}","block_end":"{block.last}"}}'
    ).encode()
