"""The imported log: the history of a stock cluster's ZooKeeper and brokers, in refold's log format.

- `events` defines its events, `encoding` how they are stored, `state_events` how a ZooKeeper
  state is split into events
- `reading` opens a log and reads its first state and its records
- `api_requests` parses requests of a broker's request log

A *recorded* log has the inputs and decisions of refold's controller. An imported log has a state of
ZooKeeper and each transaction after it, so ZooKeeper's reply to any read can be computed.
Decisions of the cluster's controller are `observed`. `refold import` makes such logs
(replay.stock_clusters.imports). Their log kind is "world-backed".
"""
