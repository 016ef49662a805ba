"""A log as a report: findings in sentences, a time line, and every decision with its why.

- `reading` reads a log once: `recorded` folds a log of the daemon with the observer of
  `observing`, `imported` reads an imported one. Both result in a `reading.Reading`
- `document` has the values of a report; `building` makes them from a reading with `partitions`,
  `lanes`, `findings` and `cluster_changes`
- `comparing` compares two logs or runs by their cluster changes; each of the two is a
  `compared_side`
- `futures` reads the point of no return from `refold what-if`, `differing_decisions` the decisions
  that differ from `refold diff`
- `html` (with `page` and `columns`), `perfetto`, `markdown` and `summary` (JSON) write a report
- `serving` serves reports of a folder on loopback: `served_logs` finds the logs, `index_page`
  lists them
"""
