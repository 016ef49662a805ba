"""Compares the locked dependencies with published advisories: `make audit`."""
