"""A scenario and inputs of an incident that a log has recorded.

- `reading` opens a log of either kind
- `schedule` collects the inputs, `start` makes the scenario
- `recorded` reads a log of the daemon, `imported` one of a stock cluster; `recorded_znodes` and
  `imported_znodes` add what only a search needs
"""
