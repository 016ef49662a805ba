"""What is supposed where a version asks for what is not in the log: sentences, for the report."""

from typing import Final

READS: Final = "a read that is not in the log was answered at once, with what the log shows"
WRITES: Final = "a write that is not in the log was done after the usual time"
REQUESTS: Final = "a request that is not in the log was answered with success after the usual time"
TIMERS: Final = "a timer that is not in the log fired when it was due"
DRAWS: Final = "topic ids or numbers that are not in the log were made up"
ALTER_PARTITION: Final = (
    "a leader that asked for another ISR asked it with the epochs that it would have known"
)
OTHER_LEADER: Final = (
    "another ISR that the log's leader asked for was asked for by the leader that there is"
)
STATE_BY_LEADER: Final = (
    "a leader's own write to a partition's state was left out, where the state differs by then"
)
CUT: Final = "what was under way at the end of the log was answered as if it went on"
UNKNOWN: Final = "a znode that the log never saw was taken as not there"
EARLY: Final = "a znode that the log saw only later was taken to have been as it was then"
BODIES: Final = "of a large command the log has a digest only: what it was about is not known"
BESIDE: Final = (
    "beside a stock controller, what comes of it is found by a cluster of the version's own, from"
    " the election before the first difference on: reads are answered at once, writes after 2 ms,"
    " timers fire when they are due"
)
