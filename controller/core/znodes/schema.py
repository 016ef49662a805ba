"""Shared by all znodes in JSON: types, decoding, numbers in names."""

import re
from functools import lru_cache
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from controller.core.errors import ZnodeError

DATA_BYTES_MAX: Final = 1_000_000
"""The most that is written into one znode: below jute.maxbuffer, which is 1 MiB if not set."""

INT_MAX: Final = 2**31 - 1
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)

Int32 = Annotated[int, Meta(ge=-(2**31), le=INT_MAX)]
Natural32 = Annotated[int, Meta(ge=0, le=INT_MAX)]
Epoch = Annotated[int, Meta(ge=-1, le=INT_MAX - 1)]
"""An epoch that can be raised by one."""
Replicas = tuple[Int32, ...]
"""Kafka accepts any id, also negative ones, which no broker can have."""
Name = tuple[str, int]
"""A partition by topic and number."""

T = TypeVar("T")


def decode_znode(decoder: msgspec.json.Decoder[T], path: str, what: str, data: bytes | None) -> T:
    """The content of a znode. Raises ZnodeError, whose text says that `path` is not `what`."""
    try:
        return decoder.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ZnodeError(f"{path} cannot be read as {what}: {error}") from error


@lru_cache(4096)
def parse_natural(text: str) -> int | None:
    """A natural number of 32 bits in its only spelling, such as a broker id or a partition number
    in a path; None for anything else."""
    if not _NUMBER.fullmatch(text) or int(text) > INT_MAX:
        return None
    return int(text)


class _PartitionName(Struct, frozen=True):
    topic: str
    partition: Int32


class PartitionNames(Struct, frozen=True):
    """A list of partitions by name, which several znodes hold."""

    partitions: list[_PartitionName]

    @property
    def names(self) -> list[Name]:
        """Topic and number of each."""
        return [(one.topic, one.partition) for one in self.partitions]


names_decoder = msgspec.json.Decoder(PartitionNames)
