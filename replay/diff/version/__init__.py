"""The compared version: folds a log, and continues in a simulated cluster after it leaves the log.

- `folding` folds a recorded log as long as the log contains each command of the version
- `counterfactual_run` continues after that: the events of the cluster keep their times
- `recorded_history` is what the log contains, with its znodes in `log_znodes`; `log_commands` finds
  the log's outcome for a command of the version
- `command_responder` answers the version's commands, in `diverged_zookeeper`
- `imported` folds an imported log as a shadow of its controllers; in `imported_run` the version is
  the controller, term by term (`imported_term`), in `imported_zookeeper`
- `adapted_requests` are brokers' requests as they would have been
- `decisions` defines what a decision is; `fold_recorder` records decisions and partition timelines
"""
