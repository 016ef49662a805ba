"""Why a cluster is as it is: the chain of causes, out of a log of either kind.

- `facts` is what can have happened to a subject, `subject` what is asked about
- `following` notes the decisions of a fold while it works; `recorded` and `imported` make the
  history of a subject out of a log
- `moves` and `rollback_steps` note what becomes of a reassignment; `move_story` makes a story of it
  (`move`), also across the logs of several `runs`
- `answers` has one module a kind of question: the first line, and what led to it
- `words` puts facts into sentences
"""
