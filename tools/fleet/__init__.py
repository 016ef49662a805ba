"""Generates the logs of a fleet: many clusters and many incidents, as the daemon would write them.

    python -m tools.fleet /var/tmp/fleet --logs 10000 --events 2000

Each log is a history of the fold in a simulated cluster. A few histories are computed, and written
repeatedly for different clusters, each with its own checksum chain.
"""
