"""The index of a log: it answers questions about a long log without folding the log.

- `making` folds a log of the daemon once, with an observer that notes `every_fact`, and stores the
  result; `imported_making` derives the decisions of an imported log once (`every_imported_fact`)
- `postings` finds which events have a subject, kind, rule or term
- `store` is the file, and says whether it was made of this log by this code; `opening` opens it
- `listing` has the events and decisions that a question selects, `history` what `refold why` needs
"""
