"""`refold import`: makes an imported log from a stock cluster's ZooKeeper data and broker logs.

- `importing` drives the import, `kafka_root` finds the cluster in the ZooKeeper tree, `records`
  writes the log
- `terms` follows whose session is the controller, `decisions` classifies its transactions as
  decisions or as writes for a request; docs/imported-logs.md states the rules
- `logged_requests` and `coverage` know the requests in brokers' request logs
- `versions` and `digests` find transactions that are not as the server wrote them
- `report` is what the import reports
"""
