"""Compares Kafka's 0.8 design without a controller with the controller (docs/design-comparison.md).

- `scenarios`: clusters and faults from seeds
- `meter`: what is measured in a run of either design
- `comparison`: many seeds on all cores
- `broker_failure`: the operations of one broker's failure by the number of partitions
- `tables`, `charts`: the results in Markdown
"""
