"""Replay of the logs in the table by several versions of the code (docs/fleet.md).

- `replay` is the driver's part: it chooses the work and runs it in steps; `summary` counts the
  results
- `versions` finds versions, ships them to executors and finds them there; `version_processes` runs
  them
- `units` is the work of an executor on one log or a piece of it: `rebuild` writes the log from the
  table, `comparison` compares a version's decisions with the log, `recorded_decisions` reads what
  the log itself decided
- `snapshots` makes the snapshots at which a log is split
- `results` is the folder with the results, and their columns; `divergence_list` lists single
  divergences
"""
