"""The znodes of a ZooKeeper server as pure values, for the simulated cluster, the files of stock
clusters and all commands that show znodes.

- `tree`: znodes by path, with the effect of single writes
- `paths`: the paths that a server accepts, and their parents
- `owners`: the kinds of owners: none, a session, a container or a time to live
"""
