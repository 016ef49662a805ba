"""The procedures of a broker, which run step by step, one procedure at a time."""
