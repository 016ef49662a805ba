"""The result of a check of a log so far."""

from collections import Counter

from msgspec import Struct, field

from replay.agreement.broker_requests.comparing import TermRequests
from replay.agreement.decisions.judgements import Judgement
from replay.agreement.kraft_terms import KraftTerm
from replay.agreement.logs.log_ends import DamagedPart, TruncatedLog


class ConformanceResult(Struct):
    """The result of a check. `requests` are by controller epoch, `warm` and `inputs` are counts of
    decisions that are not judged."""

    judgements: list[Judgement] = field(default_factory=list)
    requests: dict[int, TermRequests] = field(default_factory=dict)
    warm: int = 0
    inputs: int = 0
    kraft_terms: list[KraftTerm] = field(default_factory=list)
    """The terms of KRaft controllers, whose decisions and requests are not judged."""
    undecided: list[Judgement] = field(default_factory=list)
    """Decisions that only the fold has made so far: the log ends too early to judge them."""
    is_cut: bool = False
    """Whether the brokers' logs show that later transactions are missing."""
    cut_logs: list[TruncatedLog] = field(default_factory=list)
    """Brokers' logs that end too early."""
    damaged_parts: list[DamagedPart] = field(default_factory=list)
    """Lines with Kafka's layout but another content."""
    unreadable: Counter[int] = field(default_factory=Counter)
    """How many requests of a controller in a broker's request log cannot be read, by broker."""
    malformed_lines: Counter[int] = field(default_factory=Counter)
    """How many lines of state-change.log are not in Kafka's form, by controller."""
