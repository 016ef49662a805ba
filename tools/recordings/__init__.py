"""Records random incidents of stock clusters in ZooKeeper mode, for `refold import`.

A recording is a folder: scenario.json (the actions), final.json (every znode at the end),
zookeeper/version-2 (ZooKeeper's transaction logs and snapshots) and logs/broker-N (the brokers'
logs). The incident is determined by a mix and a seed; the cluster's timing is not.
"""
