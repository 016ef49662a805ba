"""Whether the requests that the fold sends to brokers are those that Kafka's controller sent."""
