"""A log without the names in it, to share an incident: the same decisions under other names.

- `topic_names` finds names that keep what decides of a topic's name: its place in the sorted order,
  the names that it collides with, and its Java hash code, by which Kafka's hash maps are ordered
- `names` collects the names of a log and says what stands for each
- `places` knows where names are in paths, in znodes and in requests; `fields` in events and in
  commands
- `redacting` writes the other log: of a recorded one its decisions are derived anew and compared
"""
