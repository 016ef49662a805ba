"""Opening and folding logs.

- `open_log` opens any log; `packed` unpacks archives, incidents and recordings
- `decode` decodes events, also those of older versions (`older_events`)
- `recorded_fold` folds a log of the daemon; `other_core` compares it if another core recorded it
- `snapshots` stores the state at the start of segments; `subject_index` indexes events by subject
"""
