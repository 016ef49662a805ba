"""`refold check --migration`: what is in the way of a migration to KRaft, or left of one that was
rolled back. `evaluate` finds it (docs/migration.md)."""
