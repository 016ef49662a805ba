"""N logs of the table by M versions of the code (docs/fleet.md).

- `replay` is the driver's part: what there is to do, in which steps; `summary` what it came to
- `versions` finds versions, ships them, and finds them on an executor; `sides` has their processes
- `units` is what an executor does with a log or a piece of one: `rebuilt` makes it again of the
  table, `judging` says how far a version agrees with it, `recorded` what the log itself decided
- `splitting` makes the snapshots that a log is split at
- `results` is the folder with what was found, and its columns
"""
