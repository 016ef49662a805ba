"""The decisions of a fold that have no counterpart yet where the log ends.

The stock controller may be about to write, or it may have decided otherwise and have nothing to do.
It may also hang. If its session is still alive after the session timeout, it did not hang.
"""

from typing import Final

from controller.core import znodes
from replay.agreement.decisions.judgements import Judgement
from replay.agreement.trace.controller_trace import ControllerTrace

EXPIRY_MS: Final = 4_000
"""A session ends at most this long after its timeout: ZooKeeper rounds up to its tickTime, which is
2 or 3 s by default."""


def unmatched_decisions(
    trace: ControllerTrace, last_transaction: int, until_ms: int | None = None
) -> list[Judgement]:
    """The decisions for whose writes by the controller the fold waits. The fold continues without
    these writes.

    `last_transaction` is the record of the last transaction by now. `until_ms`: only if the fold
    has waited since this time.
    """
    fold = trace.fold
    if not fold.is_active or fold.owner_of(znodes.CONTROLLER) != trace.session:
        return []
    if until_ms is not None and until_ms > fold.now_ms:
        trace.advance(fold.seq, until_ms, fold.zxid)
    since = fold.waiting
    while fold.read is not None and since.seq >= last_transaction:
        # ZooKeeper has not changed, so it does not matter when the controller read.
        fold.answer()
    fold.waiting = since
    is_recent = until_ms is not None and max(since.ms, trace.free_ms) > until_ms
    if fold.batch is None or is_recent:
        return []
    trace.compared.skip_batch()
    return trace.compared.take_judgements()
