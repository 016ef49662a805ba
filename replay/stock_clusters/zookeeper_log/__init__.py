"""Reads the transaction logs and snapshots of a ZooKeeper server, without Java.

- `source` finds them in a folder or an archive, `data_folder` groups them by server
- `log_file` reads one transaction log, `merging` all logs of a server in the order of zxids
- `transactions` has the results, `decoding` parses them
- `snapshot_file` reads a snapshot, `restoring` applies later transactions to its tree,
  `gap_resolution` finds a snapshot after missing transactions
- `damage` describes where a file cannot be read further; the part before it is used

The formats are those of ZooKeeper 3.4 to 3.9 (FileTxnLog, FileSnap, zookeeper.jute). Fields are
big-endian; a length of -1 means null.
"""
