"""Benchmarks: `python -m tools.bench.NAME --help` describes the options of each.

- Compared with Kafka's controller, on a real ZooKeeper: `failover` (failover, failure
  and return of a broker), `reassignment` (beginning many reassignments)
- Compared with Kafka's controller, on real brokers: `cancellation_stalls` (producers while the
  controller dies in a cancellation)
- Compared with another library: `append` (sqlite3), `encode` (kio), `zookeeper_reads` (kazoo),
  `diff` (Temporal's replayer)
- Compared with fewer cores or fewer logs: `fleet_replay`, `fleet_analyse`
- Speed and memory alone: `fleet_ingest`, `inspect`, `zookeeper_log`
"""
