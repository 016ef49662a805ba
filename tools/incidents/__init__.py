"""Records the logs in tests/incidents: one incident each, on a real cluster with refold as
controller.

`python -m tools.incidents` records them again. It runs ZooKeeper and stock Kafka brokers on this
machine. `scripts` defines the incidents; times and topic ids differ each time.
"""
