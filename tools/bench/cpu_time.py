"""The CPU time that a benchmark has used."""

import resource


def cpu_seconds() -> float:
    """CPU time of this process and of its child processes that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
