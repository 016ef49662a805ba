"""What a broker does step by step, one procedure at a time."""
