"""Analysis of the records of a table with Spark SQL: `refold fleet analyse`.

- `analyse` creates the tables in order; `folder` holds them, `summary` condenses them
- Intermediate tables: `znodes` (changes of znodes, from recorded and imported logs), `partitions`
  (states and assignments over time, leader changes), `brokers`, `logs`
- One module per topic: `failovers`, `outages`, `reassignments`, `races`, `reassignment_races`,
  `zombies`

Each query is a function from tables to a table. docs/fleet-tables.md describes the columns.
"""
