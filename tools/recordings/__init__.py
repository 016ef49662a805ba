"""Records what a stock cluster in ZooKeeper mode does in a random incident, for `refold import`.

A recording is a folder: scenario.json (what was done), final.json (every znode at the end),
zookeeper/version-2 (ZooKeeper's transaction logs and snapshots) and logs/broker-N (the brokers'
logs). The incident follows from a mix and a seed; the cluster's timing does not.
"""
