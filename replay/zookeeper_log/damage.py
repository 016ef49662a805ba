"""Where a file stops making sense."""

from msgspec import Struct

from replay.errors import ReplayError


class Damage(Struct, frozen=True):
    """A file is good up to `offset` (bytes; of the decompressed file) and `zxid`, and no further.

    `zxid` is that of the last good transaction, None if there is none. `is_torn`: the server was
    killed while it wrote, which leaves nothing out that it ever acknowledged.
    """

    file: str
    offset: int
    zxid: int | None
    reason: str
    is_torn: bool = False

    def __str__(self) -> str:
        last = "before any transaction" if self.zxid is None else f"at zxid {self.zxid:#x}"
        return f"{self.file} ends at offset {self.offset}, {last}: {self.reason}"


class DamagedFileError(ReplayError):
    """A file that is of no use without the part that is damaged."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage
