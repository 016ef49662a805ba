"""Damage in a file."""

from msgspec import Struct

from replay.errors import ReplayError


class FileDamage(Struct, frozen=True):
    """A file can be read up to `offset` (in bytes of the decompressed file), and no further.

    `zxid` is the last good transaction, None if there is none. `is_torn`: the server was killed
    while it wrote, so nothing that it acknowledged is missing. `is_snapshot`: a snapshot is useless
    without the rest.
    """

    file: str
    offset: int
    zxid: int | None
    reason: str
    is_torn: bool = False
    is_snapshot: bool = False

    def __str__(self) -> str:
        if self.is_snapshot:
            return f"{self.file} ends at offset {self.offset}: {self.reason}: it is not used"
        last = "before any transaction" if self.zxid is None else f"at zxid {self.zxid:#x}"
        return f"{self.file} ends at offset {self.offset}, {last}: {self.reason}"


class DamagedSnapshotError(ReplayError):
    """A snapshot cannot be used."""

    def __init__(self, damage: FileDamage) -> None:
        super().__init__(str(damage))
        self.damage = damage
