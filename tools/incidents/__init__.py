"""The logs in tests/incidents: a real cluster under refold, one incident each.

`python -m tools.incidents --help` makes them anew, for which this machine runs ZooKeeper and stock
Kafka brokers. What happens is scripted (`scripts`); times and topic ids are another's each time.
"""
