"""Runs `refold run --mode shadow` next to a stock cluster in random incidents.

python -m tools.shadow --seconds 600
"""
