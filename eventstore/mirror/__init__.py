"""Mirrors logs to a Kafka topic. The SQLite log is authoritative; the topic follows it.

One message is one record. Its key is the cluster and the run (`CLUSTER/RUN`). Its value is a frame
of `eventstore.frames` with one row. Its timestamp is the record's wall clock, and its header `at` a
`Position`. All messages of a run are on one partition, so their order is the log's. Each run is
published in transactions whose transactional id contains the key. A second or restarted mirror
fences the first, so that consumers with isolation level read_committed see each record once.
"""
