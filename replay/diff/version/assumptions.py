"""The assumptions of a run after a version left the log, as sentences for the report."""

from typing import Final

READS: Final = "a read that is not in the log was answered at once, with what the log shows"
WRITES: Final = "a write that is not in the log succeeded after the usual time"
REQUESTS: Final = "a request that is not in the log was answered with success after the usual time"
TIMERS: Final = "a timer that is not in the log fired when it was due"
DRAWS: Final = "topic ids or random numbers that are not in the log were generated"
ALTER_PARTITION: Final = "a leader requested another ISR with the epochs that it would have known"
OTHER_LEADER: Final = "the simulated leader requested the ISR that the log's leader requested"
STATE_BY_LEADER: Final = (
    "a leader's write to a partition's state was left out, because the state differed by then"
)
CUT: Final = (
    "commands without an outcome at the end of the log were answered as if the log continued"
)
UNKNOWN: Final = "a znode that the log never shows did not exist"
EARLY: Final = "a znode that the log shows only later had the same content before"
BODIES: Final = "a large command, of which the log has only a digest, was ignored"
SIMULATED_CLUSTER: Final = (
    "the consequences in an imported log come from a simulated cluster, from the election before"
    " the first difference on: reads are answered at once, writes after 2 ms, timers fire when due"
)
