"""The index of a log of the daemon: it answers questions about a long log without folding the log.

- `making` folds the log once, with an observer that notes `every_fact`, and stores the result
- `store` is the file, and says whether it was made of this log by this code; `opening` opens it
- `listing` has the events and decisions that a question selects, `history` what `refold why` needs
"""
