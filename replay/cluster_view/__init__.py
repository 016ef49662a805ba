"""The cluster at a moment as plain values.

- `views` are the values, `selecting` leaves out what is not asked about
- `of_context` makes them of what refold's fold knows, `of_znodes` of an imported ZooKeeper
"""
