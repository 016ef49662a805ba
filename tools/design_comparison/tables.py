"""The tables of docs/design-comparison.md."""

from collections.abc import Sequence
from math import ceil
from typing import Final

from replay.world.scheduler import SECOND
from tools.design_comparison.broker_failure import (
    CASES,
    FORMULAS,
    TITLES,
    BrokerFailure,
    extrapolated,
    seconds,
)
from tools.design_comparison.comparison import DESIGNS, DesignComparison
from tools.design_comparison.meter import Measurements
from tools.design_comparison.scenarios import FAULTS, KILLED, STOPPED

EXTRAPOLATED: Final = (10_000, 100_000)
NO_TIME: Final = "not measured"
"""A controller's time does not depend on the number of partitions in the simulation, which
has no processors: that would be wrong for many."""
_ACKS: Final = ("0", "1", "all")
_OPERATIONS: Final = {
    "reads": "znodes read",
    "client_reads": "znodes read for clients' metadata requests",
    "transactions": "write transactions",
    "refused": "of these refused",
    "writes": "znodes written",
    "watches": "watches set",
    "events": "watch events",
    "control_requests": "control requests",
    "state_changes": "state change requests",
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(one)} |" for one in lines)


def percentile(times: Sequence[int], percent: int) -> float | None:
    """A percentile of times in microseconds (nearest rank), in seconds; None without times."""
    if not times:
        return None
    return sorted(times)[max(0, ceil(len(times) * percent / 100) - 1)] / SECOND


def tables(compared: DesignComparison) -> dict[str, str]:
    """All tables by name."""
    both = [compared.designs[one] for one in DESIGNS]
    return {
        "short": _short(both, compared.failures),
        "availability": _availability(both),
        "gaps": _by_fault(both, "gaps"),
        "commit gaps": _by_fault(both, "commit_gaps"),
        "two leaders": _two_leaders(both),
        "records": _records(both),
        "operations": _operations(both),
        "formulas": _formulas(),
        "broker failure": _failures(compared.failures),
    }


def _short(both: Sequence[Measurements], failures: Sequence[BrokerFailure]) -> str:
    """The most important numbers."""
    largest = {
        one.case: f"{one.operations.reads + one.operations.writes:,}"
        for one in all_failures(failures)
        if one.partitions == EXTRAPOLATED[-1]
    }
    rows = [
        [
            "a broker is killed: median time until its partitions accept records again",
            *(_s(percentile(one.gaps.get(KILLED, []), 50)) for one in both),
        ],
        [
            "the same until a record with acks all is acknowledged",
            *(_s(percentile(one.commit_gaps.get(KILLED, []), 50)) for one in both),
        ],
        [
            "a broker is stopped: how often a partition became unavailable",
            *(f"{len(one.gaps.get(STOPPED, [])):,}" for one in both),
        ],
        ["unavailable partition-seconds", *(f"{_sum_s(one.gaps):,.0f}" for one in both)],
        ["partition-seconds with two leaders", *(f"{_sum_s(one.overlaps):,.0f}" for one in both)],
        *(
            [f"acknowledged and lost, acks {acks}", *(f"{one.lost.get(acks, 0):,}" for one in both)]
            for acks in _ACKS
        ),
        [
            "znodes read in one run",
            *(
                f"{(one.operations.reads + one.operations.client_reads) / max(1, one.runs):,.0f}"
                for one in both
            ),
        ],
        [
            "znodes read and written after one broker's failure, 100,000 partitions",
            largest.get("0.8", "0"),
            largest.get("controller", "0"),
        ],
    ]
    return table(["", "0.8 design", "controller"], rows)


def _availability(both: Sequence[Measurements]) -> str:
    rows = [
        ["partitions", *(f"{one.partitions:,}" for one in both)],
        ["times that a partition became unavailable", *(f"{_count(one.gaps):,}" for one in both)],
        ["unavailable partition-seconds", *(f"{_sum_s(one.gaps):,.0f}" for one in both)],
        [
            "of the observed time",
            *(f"{100 * _sum_s(one.gaps) / max(1, one.observed_us / SECOND):.2f} %" for one in both),
        ],
        [
            "partition-seconds until records with acks all were acknowledged again",
            *(f"{_sum_s(one.commit_gaps):,.0f}" for one in both),
        ],
    ]
    return table(["", "0.8 design", "controller"], rows)


def _by_fault(both: Sequence[Measurements], field: str) -> str:
    header = ["last fault", "design", "times", "median", "p99", "partition-seconds"]
    rows = []
    for kind in FAULTS:
        for title, one in zip(("0.8", "controller"), both, strict=True):
            times = getattr(one, field).get(kind, [])
            middle, high = percentile(times, 50), percentile(times, 99)
            total = f"{sum(times) / SECOND:,.0f}"
            rows.append([kind, title, f"{len(times):,}", _s(middle), _s(high), total])
    return table(header, rows)


def _two_leaders(both: Sequence[Measurements]) -> str:
    header = ["last fault", "design", "times", "median", "p99", "partition-seconds"]
    rows = [
        line
        for kind in FAULTS
        for line in _rows_of_overlaps(kind, both)
        if any(one.overlaps.get(kind) for one in both)
    ]
    totals = [
        ["all", title, f"{_count(one.overlaps):,}", "", "", f"{_sum_s(one.overlaps):,.0f}"]
        for title, one in zip(("0.8", "controller"), both, strict=True)
    ]
    return table(header, [*rows, *totals])


def _rows_of_overlaps(kind: str, both: Sequence[Measurements]) -> list[list[str]]:
    rows = []
    for title, one in zip(("0.8", "controller"), both, strict=True):
        times = one.overlaps.get(kind, [])
        middle, high = _s(percentile(times, 50)), _s(percentile(times, 99))
        total = f"{sum(times) / SECOND:,.0f}"
        rows.append([kind, title, f"{len(times):,}", middle, high, total])
    return rows


def _records(both: Sequence[Measurements]) -> str:
    header = ["acks", "design", "sent", "acknowledged", "acknowledged and lost", "per million"]
    rows = []
    for acks in _ACKS:
        for title, one in zip(("0.8", "controller"), both, strict=True):
            acknowledged, lost = one.acknowledged.get(acks, 0), one.lost.get(acks, 0)
            share = f"{1_000_000 * lost / max(1, acknowledged):,.0f}"
            sent = f"{one.sent.get(acks, 0):,}"
            rows.append([acks, title, sent, f"{acknowledged:,}", f"{lost:,}", share])
    return table(header, rows)


def _operations(both: Sequence[Measurements]) -> str:
    rows = [
        [title, *(f"{getattr(one.operations, name) / max(1, one.runs):,.1f}" for one in both)]
        for name, title in _OPERATIONS.items()
    ]
    return table(["in one run, on average", "0.8 design", "controller"], rows)


def _formulas() -> str:
    names = ["reads", "writes", "transactions", "watches", "events", "state_changes"]
    names += ["control_requests", "entries"]
    titles = {**_OPERATIONS, "entries": "partitions in LeaderAndIsr requests"}
    rows = []
    for name in names:
        found = [FORMULAS[case].get(name) for case in CASES]
        rows.append([titles[name], *(one.text if one else "one per znode" for one in found)])
    return table(["operations", *(TITLES[case] for case in CASES)], rows)


def all_failures(measured: Sequence[BrokerFailure]) -> list[BrokerFailure]:
    """The failures that were measured, and the larger ones by the formulas, case by case."""
    found = []
    for case in CASES:
        of_case = sorted(
            (one for one in measured if one.case == case), key=lambda one: one.partitions
        )
        found += of_case
        found += [extrapolated(of_case[-1], partitions) for partitions in EXTRAPOLATED if of_case]
    return found


def _failures(measured: Sequence[BrokerFailure]) -> str:
    header = ["partitions", "design", "", "znodes read", "znodes written", "watches set"]
    header += ["watch events", "last leader after", "ZooKeeper's time"]
    failures = sorted(all_failures(measured), key=lambda one: one.partitions)
    rows = []
    for one in failures:
        operations = one.operations
        counts = (operations.reads, operations.writes, operations.watches, operations.events)
        rows.append(
            [
                f"{one.partitions:,}",
                TITLES[one.case],
                "measured" if _is_measured(one, measured) else "by formula",
                *(f"{count:,}" for count in counts),
                f"{one.elected_ms / 1000:,.2f} s" if is_time_known(one, measured) else NO_TIME,
                f"{seconds(one):,.3g} s",
            ]
        )
    return table(header, rows)


def _is_measured(failure: BrokerFailure, measured: Sequence[BrokerFailure]) -> bool:
    return failure.partitions <= max((one.partitions for one in measured), default=0)


def is_time_known(failure: BrokerFailure, measured: Sequence[BrokerFailure]) -> bool:
    """Whether the time of a failure was measured, or its formula holds (see NO_TIME)."""
    return failure.case == "0.8" or _is_measured(failure, measured)


def _count(by_kind: dict[str, list[int]]) -> int:
    return sum(map(len, by_kind.values()))


def _sum_s(by_kind: dict[str, list[int]]) -> float:
    return sum(map(sum, by_kind.values())) / SECOND


def _s(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
