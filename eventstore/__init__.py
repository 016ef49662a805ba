"""The event log: append, read, verify, copy, retain, mirror. Knows records, not what is in them.

A log is a folder, written by one run of the daemon. It holds segments, SQLite files that are named
by the sequence number of their first event, each with a header that names its predecessor:

    run-20261121T035901.204518000Z/
        00000000000000000001.refold             a segment: header, events, commands, closing record
        00000000000000481223.refold             the next one, after a roll-over
        00000000000000481222.9f2c11.snapshot    the state after event 481222, folded by core 9f2c11
        00000000000000000001.subjects           an index by subject, made after the fact
        mirrored.json                           how far it is published, where it is mirrored
        lock                                    held by the daemon that writes, with its process id

Snapshots and indexes are caches in files of their own, so that making one never waits for, or
holds up, the daemon that appends. Start with `writer.LogWriter` and `reader.LogReader`.
"""
