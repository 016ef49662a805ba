"""The 0.8 design in the simulation: the same network, ZooKeeper, faults and clients.

- `cluster`: a run of a scenario with inputs, as `replay.world.cluster` is for the controller
- `broker`: a broker over all its runs, and one run
- `serving`: the connections that a broker accepts
- `messages`: the fetch requests between brokers
"""
