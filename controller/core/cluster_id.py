"""The znode /cluster/id."""

from typing import Final

import msgspec
from msgspec import Struct

CLUSTER_ID: Final = "/cluster/id"


class _Znode(Struct, frozen=True):
    id: str


_decoder = msgspec.json.Decoder(_Znode)


def read_cluster_id(data: bytes | None) -> str | None:
    """The id of the cluster (ClusterIdZNode); None for content that cannot be used."""
    try:
        return _decoder.decode(data or b"").id
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
