"""What a fresh machine lacks: a usable Java is found, Kafka's jars are fetched and checked."""
