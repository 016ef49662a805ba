"""Transactions of all kinds, and files of them."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st

from replay.stock_clusters.imports.digests import digest_of
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.data_folder import SourceFile
from replay.stock_clusters.zookeeper_log.log_file import TransactionLogReader
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    Check,
    CloseSession,
    Content,
    Create,
    CreateContainer,
    CreateSession,
    CreateTtl,
    Delete,
    Error,
    Multi,
    OpCode,
    SetAcl,
    SetData,
    Transaction,
    TreeDigest,
    ZooKeeperAcl,
)
from replay.znode_tree.tree import Tree
from tools.zookeeper_log.file_format import write_log

RECORDING = Path(__file__).parents[3] / "recordings" / "chaos-5.tar.xz"
"""An incident of a stock cluster: two logs, and a snapshot between them."""

patient = settings(max_examples=40)
"""For properties: an example that takes long on a busy machine is no failure."""

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/b", "/b/ä", "", "a", "//", "/a/", "//a"])
DATA = st.none() | st.binary(max_size=30)
ACLS = st.just(OPEN_ACL) | st.lists(st.builds(ZooKeeperAcl, INTS, TEXTS, TEXTS), max_size=3).map(
    tuple
)
CREATES = st.builds(Create, PATHS, DATA, ACLS, st.booleans(), INTS)
TTLS = st.builds(CreateTtl, PATHS, DATA, ACLS, INTS, LONGS)
CONTAINERS = st.builds(CreateContainer, PATHS, DATA, ACLS, INTS)
ERRORS = st.builds(Error, INTS)


def typed(opcodes: Sequence[OpCode], contents: st.SearchStrategy[Content]) -> st.SearchStrategy:
    return st.tuples(st.sampled_from([int(one) for one in opcodes]), contents)


IN_MULTI = st.one_of(
    typed((OpCode.CREATE, OpCode.CREATE_2), CREATES),
    typed((OpCode.CREATE_TTL,), TTLS),
    typed((OpCode.CREATE_CONTAINER,), CONTAINERS),
    typed((OpCode.DELETE, OpCode.DELETE_CONTAINER), st.builds(Delete, PATHS)),
    typed((OpCode.SET_DATA,), st.builds(SetData, PATHS, DATA, INTS)),
    typed((OpCode.CHECK,), st.builds(Check, PATHS, INTS)),
    typed((OpCode.ERROR,), ERRORS),
)


def _multi(operations: list[tuple[int, Content]]) -> Multi:
    return Multi(tuple(one for one, _ in operations), tuple(one for _, one in operations))


CONTENTS = st.one_of(
    IN_MULTI,
    typed((OpCode.RECONFIG,), st.builds(SetData, PATHS, DATA, INTS)),
    typed((OpCode.SET_ACL,), st.builds(SetAcl, PATHS, ACLS, INTS)),
    typed((OpCode.CREATE_SESSION,), st.builds(CreateSession, INTS)),
    typed(
        (OpCode.CLOSE_SESSION,),
        st.builds(CloseSession, st.none() | st.lists(PATHS.filter(bool), max_size=3).map(tuple)),
    ),
    typed((OpCode.MULTI,), st.lists(IN_MULTI, max_size=4).map(_multi)),
)
DIGESTS = st.none() | st.builds(TreeDigest, st.just(2), LONGS)
SESSIONS = st.sampled_from([0x1000020D7780000, 0x1000020D7780001, -1])


def _transaction(
    zxid: int, session: int, cxid: int, time_ms: int, typed_content: tuple[int, Content], digest
) -> Transaction:
    return Transaction(zxid, session, cxid, time_ms, *typed_content, digest)


TRANSACTIONS = st.builds(_transaction, LONGS, SESSIONS, INTS, LONGS, CONTENTS, DIGESTS)


def log_bytes(transactions: Iterable[Transaction], preallocated: int = 0) -> bytes:
    stream = io.BytesIO()
    write_log(stream, transactions, preallocated)
    return stream.getvalue()


def read(content: bytes, name: str = "log.1") -> tuple[list[Transaction], FileDamage | None]:
    reader = TransactionLogReader(io.BytesIO(content), name)
    return list(reader), reader.damage


def error(zxid: int, code: int = -101) -> Transaction:
    """A transaction of minimal size."""
    return Transaction(zxid, 1, zxid & 0xFF, 1000 + zxid, OpCode.ERROR, Error(code))


def at(zxid: int, opcode: OpCode, content: Content, session: int = 7) -> Transaction:
    return Transaction(zxid, session, 1, 1000 + zxid, int(opcode), content)


def multi(zxid: int, *operations: tuple[OpCode, Content], session: int = 7) -> Transaction:
    return at(zxid, OpCode.MULTI, _multi([(int(one), two) for one, two in operations]), session)


def create(path: str, parent_cversion: int, data: bytes = b"", ephemeral: bool = False) -> Create:
    return Create(path, data, OPEN_ACL, ephemeral, parent_cversion)


def log_file(folder: Path, transactions: Sequence[Transaction], zxid: int | None = None):
    """Writes a transaction log that is named after its first zxid, or `zxid`."""
    begin = transactions[0].zxid if zxid is None else zxid
    path = folder / f"log.{begin:x}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(log_bytes(transactions))
    return SourceFile(begin, path.name, path, path.stat().st_size)


def tree_digest(tree: Tree) -> int:
    """ZooKeeper's digest of a tree (DigestCalculator, version 2), as a log has it."""
    total = sum(digest_of(path, znode) for path, znode in tree.dump().items())
    return (total + 2**63) % 2**64 - 2**63
