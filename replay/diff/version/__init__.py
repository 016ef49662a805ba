"""The version's side of a diff: folds a log, and where it leaves the log, goes its own way.

- `folding` follows a log as long as everything that is asked for is in it, command by command
- `own_way` is what comes after that: exogenous events keep their times, `own_world` is the
  ZooKeeper, `log_commands` knows which of its own commands the log has, too
- `log_story` is what a log tells of ZooKeeper and of times, `log_znodes` the znodes in it
- `decided` says what counts as a decision, `courses` what became of partitions
- `imported` folds a stock cluster's log `beside` its controllers; in `imported_way` the version
  becomes the controller itself, term by term (`imported_term`), in `imported_world`
"""
