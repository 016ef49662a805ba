"""A table of partition health that is maintained from the mirror's topic while daemons write logs.

- `health` defines the health of a partition, without further dependencies
- `mirrored_log` folds one log from its messages, checks them against the chain, and resumes
- `folder` is the job's folder, `cluster_update` applies a batch to one cluster on an executor
- `job` is the Structured Streaming job, `status` says whether the table is up to date

Exactness comes from `mirrored_log`: a record is identified by its number and its chain value, so
that a repeated record changes nothing and a missing one is detected. Spark's checkpoint only says
where to continue reading. It may be older than the stored state, never newer.
"""
