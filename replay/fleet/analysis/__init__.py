"""What the logs of a fleet tell of its clusters, in Spark SQL: `refold fleet analyse`.

- `analysing` makes the tables in order, `folder` puts them into their place
- What others are made of: `znodes` (what is told of them, by daemons' logs and by imported ones),
  `partitions` (states and assignments, from when to when), `brokers`, `logs`
- A topic each: `terms` (failovers), `outages`, `leaders`, `reassignments`, `races`, `zombies`

A query is a function from tables to a table. docs/fleet-tables.md describes the columns.
"""
