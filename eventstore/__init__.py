"""The event log: append, read, verify, copy, retain, mirror. Payloads of records are opaque here.

A log is a folder that one run of the daemon writes. It contains segments, which are SQLite files
named by the sequence number of their first event. Each segment has a header that names its
predecessor:

    run-20261121T035901.204518000Z/
        00000000000000000001.refold             a segment: header, events, commands, closing record
        00000000000000481223.refold             the next one, after a roll-over
        00000000000000481222.9f2c11.snapshot    the state after event 481222, folded by core 9f2c11
        00000000000000000001.subjects           an index by subject, made on demand
        mirrored.json                           how far it is published, if it is mirrored
        lock                                    held by the daemon that writes; has its process id

Snapshots and indexes are caches in separate files, so that making one neither delays the daemon
that appends nor waits for it. Start with `writer.LogWriter` and `reader.LogReader`.
"""
