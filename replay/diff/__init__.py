"""Two versions of the code on the same logs: what one of them decides otherwise
(docs/design.md#replay).

- `protocol` is what runs in each version, `messages` what it is asked and answers: kept stable, so
  that versions that are years apart can be compared. `version` is the rest of that side: a log
  folded as far as it goes, and on in a world of its own where the version leaves the log
- the rest is the side that compares: `references` finds a version, `processes` starts it,
  `logs` opens what is given, `matching` and `contents` say what differs, `grouping` what belongs
  together, `consequences` what came of it, `accepted` what is wanted, `reports` tells it
"""
