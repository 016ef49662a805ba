"""The settings of a broker's fold, which are in the header of its log."""

from typing import Final, Literal

from msgspec import Struct

KAFKA_0_8: Final = "0.8"
"""The design, as the header of a log names it."""

FIRST_RULES: Final = 1
"""The version of the rules of logs whose header has none."""
SECOND_RULES: Final = 2
THIRD_RULES: Final = 3
CURRENT_RULES: Final = 4


class BrokerConfiguration(Struct, frozen=True, kw_only=True):
    """The settings that affect decisions of one broker.

    - `leader_election_wait_time_ms`: LeaderElectionWaitTime, how long a replica that is not the
      preferred one waits before it tries to become leader.
    - `keep_in_sync_time_ms`: KeepInSyncTime, how long a follower may lag before the leader removes
      it from the ISR.
    - `checkpoint_interval_ms`: how often the high watermarks are stored.
    - `retry_ms`: how long a broker waits before it repeats an election, a registration, the search
      for a leader's address, or a fetch that returned no records.
    - `rules`: the version of the rules that the broker follows, so that old logs replay. Since
      version 2, the writes of a leader check /brokers/epoch (I-03), and a producer whose records
      were appended to a replica that was closed gets a response (L-06). An unusable reassignment is
      watched (A-04), and the election is repeated if no assigned replica is in the ISR (E-08). A
      refused registration is reported with its cause (S-08). Since version 3, a broker notes its
      start (S-11), and a replica that was started again meanwhile does not join the ISR (I-05).
      Unreadable znodes are read again (S-12), requests that cannot be deleted are carried out once
      (Q-07), and a lost or unreadable epoch is taken from all partitions (E-09). A reassignment can
      be replaced before it is complete (A-02). Since version 4, a broker notes its start again if
      another client has changed the state path (S-13, D-08), and no leader is elected if the ISR of
      a partition that had a leader was deleted (E-01).
    """

    broker_id: int
    host: str
    port: int
    leader_election_wait_time_ms: int = 1000
    keep_in_sync_time_ms: int = 10_000
    checkpoint_interval_ms: int = 5000
    retry_ms: int = 500
    rules: Literal[1, 2, 3, 4] = CURRENT_RULES
    design: Literal["0.8"] = KAFKA_0_8
