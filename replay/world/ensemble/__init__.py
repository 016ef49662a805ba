"""The process "zookeeper" of a simulation: the servers of an ensemble, and their clients' sessions.

- `ensemble`: the ensemble, its transactions and its faults
- `member`: one server, which may lag
- `client`: a client's connection to a member
- `sessions`: the sessions and when they expire
- `protocol`: the messages of clients that do not encode them; `codec`: ZooKeeper's encoding
"""
