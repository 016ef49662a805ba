"""Write the records of a topic as a stream to a folder: python -m ... SERVERS TOPIC JARS OUT.

This is a separate process, because Spark uses the jars of its first session in a process.
"""

import sys
from pathlib import Path

from replay.fleet.mirror_stream import messages, records
from replay.fleet.session import spark_session


def main(servers: str, topic: str, jars: str, out: Path) -> None:
    with spark_session("local[2]", {"spark.jars": jars}) as spark:
        stream = records(messages(spark.readStream, servers, topic))
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(out.with_name("checkpoint")))
        writer.start(str(out)).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
