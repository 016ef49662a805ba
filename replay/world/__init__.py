"""The simulated cluster: ZooKeeper and brokers as pure values.

- `zookeeper`: a server with sessions, transactions and watches; `watches` and `requests` are its
  parts, and its znodes are a tree of `replay.znode_tree`
- `outcomes` carries out a controller's commands on it
- `broker`: brokers, as far as controllers and clients can see them
- `scheduler` and `network`: virtual time, and messages between processes
- `ensemble`: the process "zookeeper": its members, sessions and faults
- `zookeeper_client`: the session of a broker or an admin; `session_driver`: that of a refold daemon
- `controller_process`: a controller over all its runs; `controller_run`, `broker_channels`,
  `controller_endpoint` and `draws` are its parts
- `clients`: producers and consumers; `admin`: administrators, whose steps are in `admin_acts`
- `cluster`: all of them, from a `scenario`, with `inputs` that `faults` carries out; it reports to
  an `observer`. The parts that both designs have in common are in `simulated_cluster`
- `simulation`: the fold in a cluster without time, for single procedures
"""
