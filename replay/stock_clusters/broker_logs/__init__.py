"""Reads what Kafka's brokers log, as far as it tells what their controller did.

- `lines` is log4j's layout, `folders` says which broker wrote a file and in what order files come
- `controller_log`, `state_change_log` and `request_log` make typed records of lines
- `reading` merges all files by time and counts what it could not use

Layout and messages are those of Kafka 2.8 to 3.9 with the log4j.properties that it comes with.
"""
