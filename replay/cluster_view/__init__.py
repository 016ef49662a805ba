"""The cluster after an event, as plain values.

- `views`: the values; `selecting`: those about one topic or partition
- `of_context` makes them from the state of refold's fold, `of_znodes` from an imported ZooKeeper
"""
