"""The logs of many clusters on Spark.

- `columns` is the one table of records: what is in a column, and how a log's pages become it;
  `facts` says what a record is about, `naming` writes its bytes as JSON
- `log_source` and `zookeeper_source` are Spark's data sources "refold" and "zookeeper-txnlog",
  `pushdown` the filters that they take over from Spark
- `mirror_stream` is the mirror's topic through Spark's Kafka source, `live` keeps the health of
  partitions up from it
- `report` makes a page of what an analysis found
- `session` starts Spark and gives executors this code
- `ingest` brings logs into the table, by `inputs` (what there is to read), `units` (one of them,
  on an executor), `day_files` (its Parquet files) and `table` (the table's folder)
- `analysis` makes tables of the table: failovers, outages, races, ...
- `replaying` folds the logs in the table by versions of the code
- `jobs`, `batches` and `locking` are what all of these share

pyspark is imported here only, pyarrow here and for `refold log export`. What runs on an executor
takes no path but those in its partition or row, and returns counts, never records.
"""
