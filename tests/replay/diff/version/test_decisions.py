"""Which commands are decisions, and which of them have an effect."""

from controller.core.commands import CommandId, Issued, Reason, WriteZnodes
from controller.core.events import ZnodesWritten
from controller.core.operations import BAD_VERSION, FENCED, OK, Delete
from controller.core.values import ANY_VERSION
from replay.diff.version.decisions import DecisionRecorder


def test_fenced_writes_of_a_batch_are_marked() -> None:
    recorder = DecisionRecorder()
    for cause in (1, 2):
        writes = tuple(Delete(f"/{cause}/{number}", ANY_VERSION) for number in range(4))
        issued = Issued(CommandId(cause, 0), 0, WriteZnodes(writes, 1), Reason("a rule"))
        recorder.record([issued], cause, cause, cause, "", {})
    # The outcome comes in two parts.
    recorder.mark_fenced(ZnodesWritten(CommandId(2, 0), 0, [OK, FENCED], [0, -1]))
    recorder.mark_fenced(ZnodesWritten(CommandId(2, 0), 2, [BAD_VERSION, FENCED], [-1, -1]))
    recorder.mark_fenced(ZnodesWritten(CommandId(7, 0), 0, [FENCED], [-1]))
    assert [one.target for one in recorder.decisions if one.is_fenced] == ["/2/1", "/2/3"]
