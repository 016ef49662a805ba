"""`refold agree`: checks that the fold decides as Kafka's controller did.

- `comparison` is the entry point, `conformance` checks one gap-free range, `results` has the result
- `trace` follows one session of a controller with a fold, up to what the logs show
- `logs` indexes what brokers' logs show, and the API requests that no log shows
- `decisions` compares writes to ZooKeeper, `broker_requests` requests to brokers
- `search` finds assumptions, such as another event order, under which both agree

docs/stock-cluster-files.md explains how the parts work together.
"""
