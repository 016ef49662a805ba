"""Analysis and replay of the event logs of many clusters on Spark.

- `ingest` copies logs into one Parquet table: `inputs` finds the files to read, `ingest_task` reads
  them on an executor (`segment_ingest`, `stock_ingest`, `stored_pages`), `day_files` writes the
  Parquet files, `table` is the folder of the table
- `manifest` says what was ingested of each log and what the log lacks, `set_aside` what could not
  be read; `rebuild` writes a log from the table
- `columns` defines the table of records and turns pages of a log into Arrow batches; `fact_columns`
  and `facts` decode what each record is about; `decoding` keeps these columns as a second table
- `log_source` and `zookeeper_source` are Spark's data sources "refold" and "zookeeper-txnlog";
  `pushdown` turns Spark's filters into SQL conditions
- `mirror_stream` reads the mirror's topic through Spark's Kafka source; `live` maintains a table of
  partition health from it
- `analysis` derives tables from the records: failovers, outages, races and others
- `replaying` folds the logs of the table with several versions of the code and compares decisions
- `report` renders the results of an analysis as one HTML page
- `session` starts Spark and ships this code to executors; `jobs`, `batches`, `locking`, `schemas`
  and `errors` are shared by all of these

Only this package imports pyspark; pyarrow is imported here and by `refold log export`. Code on an
executor opens only the paths in its partition or row, and returns counts, never records.
"""
