"""Reads what a ZooKeeper server leaves on disk: its transaction logs and snapshots, without Java.

- `source` finds them in a folder or an archive, `data_folder` says which server's are read
- `log_file` reads one transaction log, `merging` a server's all, in the order of zxids
- `transactions` is what comes out, `decoding` makes it from bytes
- `snapshot_file` reads a snapshot, `restoring` applies the later transactions to its tree
- `damage` tells where a file stops making sense: what stands before is used

Formats as ZooKeeper 3.4 to 3.9 write them (FileTxnLog, FileSnap, zookeeper.jute). Fields are
big-endian, a length of -1 is a null.
"""
