"""The events and decisions of a log as lists, for people and scripts.

- `recorded`: those of a log of the daemon, which is folded again
- `imported`: those of an imported log. Decisions are the writes of a stock controller, with the
  rule by which a shadow fold decides the same
- `values`: the items of the lists
"""
