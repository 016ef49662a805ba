"""`refold check --migration`: what prevents a migration to KRaft, or remains after a
rollback. `evaluate` finds it (docs/migration.md)."""
