"""A log of refold's daemon as the lines that Kafka's controller would have logged.

- `rendering` folds a log and returns the lines
- `kafka_log`: the loggers, the lines, and the base class of the observers that write them
- `role`, `failover`, `brokers`, `topics`, ...: one observer for each subject of Kafka's lines
- `scala_text`: values as Scala's and Kafka's `toString` write them
"""
