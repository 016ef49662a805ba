"""Finds a Kafka cluster in a ZooKeeper: its chroot and its cluster id."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from controller.core.znodes import BROKER_IDS, CLUSTER_ID, CONTROLLER_EPOCH, read_cluster_id
from replay.errors import ReplayError
from replay.stock_clusters.zookeeper_log.transactions import Create, Multi, Transaction
from replay.znode_tree.tree import Tree

_SIGNS: Final = (CONTROLLER_EPOCH, BROKER_IDS)


class KafkaRoot(Struct, frozen=True):
    """A cluster's chroot, "" if it has none, and its id, "" if it is unknown.

    `is_only`: the user named no chroot, so there must be no other cluster.
    """

    chroot: str
    cluster_id: str
    is_only: bool


class NoClusterError(ReplayError):
    """The source has no Kafka cluster, or none under the given chroot."""


class SeveralClustersError(ReplayError):
    """The source has several Kafka clusters, and no chroot was given."""

    def __init__(self, chroots: Iterable[str]) -> None:
        super().__init__(
            f"Kafka clusters are under {_chroot_list(chroots)}: choose one with --chroot of "
            "refold import"
        )


def _chroot_of_sign(path: str) -> str | None:
    """The chroot of the cluster that this znode shows; None for other znodes."""
    return next((path.removesuffix(sign) for sign in _SIGNS if path.endswith(sign)), None)


def find_kafka(tree: Tree, following: Iterable[Transaction], wanted: str | None) -> KafkaRoot:
    """The cluster in a tree, or else the first one that the transactions create.

    `wanted` is the given chroot. Raises NoClusterError if there is no such cluster, and
    SeveralClustersError if there are several and no chroot was given.
    """
    roots = _roots(tree)
    if wanted is not None and wanted in roots:
        return KafkaRoot(wanted, roots[wanted], is_only=False)
    if roots and wanted is None:
        if len(roots) > 1:
            raise SeveralClustersError(roots)
        [(chroot, cluster_id)] = roots.items()
        return KafkaRoot(chroot, cluster_id, is_only=True)
    return _first_created(following, wanted, sorted(roots))


def check_only(root: KafkaRoot, path: str) -> None:
    """Check that a new znode belongs to the same cluster. Raises SeveralClustersError."""
    chroot = _chroot_of_sign(path)
    if chroot is not None and chroot != root.chroot:
        raise SeveralClustersError((root.chroot, chroot))


def _chroot_list(chroots: Iterable[str]) -> str:
    """Chroots as an operator writes them."""
    return ", ".join(chroot or "/" for chroot in chroots)


def _roots(tree: Tree) -> dict[str, str]:
    """The cluster ids by chroot, sorted."""
    data = {path: znode.data for path, znode in tree.dump().items()}
    chroots = {_chroot_of_sign(path) for path in data} - {None}
    return {
        chroot: read_cluster_id(data.get(f"{chroot}{CLUSTER_ID}")) or ""
        for chroot in sorted(one for one in chroots if one is not None)
    }


def _first_created(
    following: Iterable[Transaction], wanted: str | None, others: list[str]
) -> KafkaRoot:
    found: str | None = None
    ids: dict[str, str] = {}
    for create in _creates(following):
        if create.path.endswith(CLUSTER_ID):
            ids[create.path.removesuffix(CLUSTER_ID)] = read_cluster_id(create.data) or ""
        chroot = _chroot_of_sign(create.path)
        if chroot is not None and wanted in (None, chroot):
            found = chroot
        elif chroot is not None and chroot not in others:
            others.append(chroot)
        if found is not None and found in ids:
            return KafkaRoot(found, ids[found], wanted is None)
        if found is not None and create.path.startswith(f"{found}{BROKER_IDS}/"):
            break
    if found is not None:
        return KafkaRoot(found, "", wanted is None)
    if wanted is not None:
        there = f"there is {_chroot_list(others)}" if others else "and none elsewhere"
        raise NoClusterError(f"no Kafka cluster is under {wanted or '/'}, {there}")
    raise NoClusterError(
        f"no Kafka cluster is in this ZooKeeper: no znode ends in {' or in '.join(_SIGNS)}"
    )


def _creates(transactions: Iterable[Transaction]) -> Iterator[Create]:
    for transaction in transactions:
        content = transaction.content
        if isinstance(content, Create):
            yield content
        elif isinstance(content, Multi) and not content.error:
            yield from (one for one in content.operations if isinstance(one, Create))
