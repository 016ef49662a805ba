"""Why a cluster is in its state: the chain of causes, from a log of either kind.

- `subject`: the subject of a question; `facts`: what can have happened to it
- `fact_observer` adds to `noted_facts` while a fold runs: `recorded_observer` for a log of the
  daemon, `shadow_observer` for a shadow fold of an imported log; `znode_history` notes transactions
- `recorded` and `imported` make the `history` of a subject from a log, or from several `runs`
- a *move* is one reassignment of a partition from its request to its end: `move_observer` and
  `rollback_steps` note facts about it, `move_history` makes each `move` of them
- `explain` and `explanations` answer the question: one module per kind of question
- `headline`: what the controller could not do; `daemon_terms`: where a daemon's log shows the
  cluster
- `sentences`: facts in words
"""
