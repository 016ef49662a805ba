"""What a log says of the cluster at a moment, and what changed between two.

- `cluster` is the state as values, `of_context` makes it of the fold's knowledge, `of_znodes` of an
  imported cluster's ZooKeeper
- `at` opens a moment of a log, `changes` compares two
"""
