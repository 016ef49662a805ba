"""Incidents that are kept as tests: a log cut to what matters, and what is decided on it.

- `cutting` makes the shorter log and sees to it that it still replays
- `transcript` is what a version decides on it, as text that is reviewed like code
- `keeping` is the folder of an incident: log.tar.xz, incident.toml, transcript.txt
"""
