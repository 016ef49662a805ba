"""The health of partitions, kept up from the mirror's topic while daemons write their logs.

- `health` is how a partition is: the rules, without anything else
- `following` folds one log from its messages, checked by the chain, and goes on where it was
- `folder` is what stands in the job's folder, `cluster` brings one cluster up to a batch, on an
  executor
- `job` is the Structured Streaming job

What makes it exact is in `following`: a record is known by its number and its chain value, so that
one that comes again changes nothing, and one that is missing is told. Spark's checkpoint only says
where to read on: it may be behind what is kept, never ahead.
"""
