"""The cluster at a moment of a log, and the changes between two moments.

- `at` opens a moment, from the last snapshot before it
- `projections` are the states of both kinds of log, updated event by event
- `changes` compares two moments
"""
