"""A log's events and decisions as lists that people read and scripts filter.

- `events` puts what was observed into plain words, of either kind of log
- `decisions` is what was decided: `of_recorded` out of a log's own commands, `of_observed` out of
  what a stock controller wrote, with the rule by which the fold beside it decides the same
- `subjects` says what a command is about
"""
