"""Measures whether the race explorer finds the races that are planted in tests/races."""
