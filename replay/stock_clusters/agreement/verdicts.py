"""What becomes of each decision, and what is said about it."""

from typing import Final, Literal, get_args

from msgspec import Struct

Verdict = Literal["agreed", "differs", "missing", "extra"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)


class Judgement(Struct, frozen=True):
    """One decision of Kafka's, of the fold's, or of both.

    `seq` is the record of Kafka's decision, of an `extra` one the record by which it should have
    been there, and `zxid` the last one by then; `since` is the record at which the fold began what
    it was at. `differences` say in one sentence each what is not alike; `cause` is what the fold
    was at: the controller event and the rule. `is_input`: Kafka did what it was asked for, in a
    request that no log has; it never counts as agreed.
    """

    verdict: Verdict
    kind: str
    seq: int
    zxid: int
    broker: int
    epoch: int
    paths: tuple[str, ...]
    differences: tuple[str, ...] = ()
    cause: str = ""
    is_input: bool = False
    since: int = 0
