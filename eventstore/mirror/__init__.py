"""Logs on a Kafka topic: the SQLite log is the truth, the topic holds what it holds, later.

One message is one record: its key names the cluster and the run (`CLUSTER/RUN`), its value is a
frame of `eventstore.frames` with one row, its timestamp the record's wall clock, and its header
`at` a `Position`. All of a run lies on one partition, so its order is the log's. Each run is
published in transactions of a producer whose transactional id is the key: a second mirror, or one
that comes back, fences the first, so that a record is there once for who reads what is committed.
"""
