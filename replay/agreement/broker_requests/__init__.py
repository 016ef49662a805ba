"""Compares the fold's requests to brokers with the requests of Kafka's controller."""
