"""Writes ZooKeeper's transaction logs and snapshots, for tests and benchmarks of their readers.

python -m tools.zookeeper_log FOLDER --transactions 1000000
"""
