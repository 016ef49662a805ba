"""Replaces the names in a log, so that an incident can be shared: same decisions, other names.

- `topic_names` finds stand-ins that keep the properties of a topic's name that affect decisions:
  its position in the sorted order, the names that it collides with, and its Java hash code, by
  which Kafka's hash maps are ordered
- `names` collects the names of a log and assigns a stand-in to each
- `shapes` has the known shapes of paths and contents of znodes; all else is replaced as well
- `places` finds names in paths, znodes and requests; `fields` in events and commands
- `redacting` writes the new log. For a recorded log it derives the decisions again and compares
"""
