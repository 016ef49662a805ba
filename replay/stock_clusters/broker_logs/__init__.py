"""Reads the lines of brokers' logs that show what a controller did.

- `lines` parses log4j's layout
- `controller_log`, `state_change_log` and `request_log` parse the lines
- `reading` finds the broker that wrote a file, merges all files by time, and counts the lines that
  cannot be used

Layout and messages are those of Kafka 2.8 to 3.9 with its default log4j.properties.
"""
