"""Sets a new machine up: finds a usable Java, fetches and checks Kafka's jars."""
