"""Makes the logs of a fleet: many clusters, many incidents, as the daemon would have written them.

    python -m tools.fleet /var/tmp/fleet --logs 10000 --events 2000

Each log is a real history of the fold in the simulated world; a few are computed, and written
again and again for other clusters (each with its own checksum chain).
"""
