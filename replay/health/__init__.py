"""`refold health`: which partitions are not well. `evaluate` finds it in a view of the cluster."""
