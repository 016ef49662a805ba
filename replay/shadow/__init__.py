"""`refold run --mode shadow`: follows a stock controller and reports where refold differs.

- `shadow` reads what the cluster writes, compares, and reports
- `summary` has the result
- `status` has the counts so far, for `refold health` and for Prometheus

docs/shadow.md is the guide for operators.
"""
