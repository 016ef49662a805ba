"""The simulated cluster: ZooKeeper and brokers as pure values.

- `zookeeper`: a server with sessions, transactions and watches; `tree`, `watches`, `paths`,
  `owners` and `requests` are its parts
- `outcomes` carries out a controller's commands on it
- `brokers`: what brokers do with a controller's requests
- `simulation` runs the fold in such a cluster
"""
