"""Compares the decisions of two versions of the code on the same logs (docs/design.md#replay).

The compared version:

- `protocol` is the process that runs in each version, `messages` are its requests and responses.
  They are stable, so that versions of different years can be compared.
- `version` folds a log, and continues in a simulated cluster after the version leaves the log.

The comparing version:

- `references` finds a version, `processes` starts it, `logs` opens the given logs
- `comparing` folds each log with both versions
- `matching` and `contents` find the decisions that differ, `grouping` finds their first causes
- `core_source` reads a version's core, `uncovered` finds changes that no log executes, and
  `coverage` measures and stores which lines the logs execute
- `consequences` describes the effect on partitions
- `accepted` reads the intended changes, `reports` writes the report
"""
