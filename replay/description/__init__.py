"""Events and commands, in words and as JSON.

- `events`, `commands`, `imported_events`: one line each, for lists and answers
- `as_json`: records as JSON; `bulk_json`: the same for millions of values
- `phrases`: what several of these say: brokers, leaders, assignments
"""
