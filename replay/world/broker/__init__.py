"""Simulated brokers, as far as a controller and its clients can see them.

| module | content |
|---|---|
| broker | a broker over all its runs, and the faults that it can have |
| run | one run of a broker: from its start to its end |
| context, settings, metadata | what the parts of a run share |
| log, disk | records, leader epochs, what survives a crash |
| partition, remote_replica | a replica: leader and follower |
| control_requests | LeaderAndIsr, UpdateMetadata and StopReplica, and their errors |
| fetch_session | what a leader does with the fetches of one follower or consumer |
| fetcher, fetchers | what a follower fetches from one leader, and from which leaders |
| isr_changes | how a leader changes the ISR: by its controller, or in ZooKeeper |
| controller_channel | requests of a broker to its controller |
| registration, zookeeper_requests | the broker's znode and session |
| controlled_shutdown | how a broker asks its controller before it stops |
| messages, peer | requests between brokers, and of clients |

The models are the classes of Kafka 3.9 that each module names. Times between the arrival of a
message and its response are zero, unless the disk is slow.
"""
