"""The world-backed log: what a cluster's ZooKeeper and brokers did, in the event log's records.

- `events` is what can be in it, `encoding` how it is stored and read again, `restored` how the
  state at its start is cut in pieces
- `reading` opens one, gives the state that it begins with, and its records in order

A *recorded* log holds what refold's own controller was told and what it decided. This one holds
the world: a state of ZooKeeper, then each transaction. What ZooKeeper would have answered a
controller at any point is computed from them; what the cluster's own controller decided is
`observed`. `refold import` makes such logs (replay.stock_clusters.imports).
"""
