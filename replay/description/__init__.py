"""Describes events and commands in words and as JSON.

- `events`, `commands`: the events and commands of the core in words; `imported_events`: the records
  of an imported log
- `choices`: the choice of a leader, and the candidates that were passed over
- `as_json`: records as JSON; `bulk_json`: their contents as JSON for queries, by the million
- `phrases`, `error_names`: parts of descriptions: brokers, leaders, assignments, error codes
"""
