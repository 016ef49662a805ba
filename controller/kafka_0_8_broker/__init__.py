"""A broker of Kafka's 0.8 design as a process (docs/design-0.8.md#for-real): the fold of
controller.kafka_0_8 with a real ZooKeeper session, records on disk, TCP and an event log.

`broker.py` has the loop, `disk.py` the records and high watermarks, `server.py` the requests of
clients and followers, `fetching.py` the requests to leaders, `client.py` a producer and consumer,
`administration.py` the admin commands. Nothing is decided here.
"""
