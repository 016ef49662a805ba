"""`refold agree`: what the fold decides beside what Kafka's own controller decided."""
