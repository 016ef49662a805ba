"""Incidents: short logs that are kept as regression tests, each with its decisions as text.

- `cutting` and `imported_cutting` make the short log and check that it still replays
- `transcript` is the text of the decisions, which is reviewed like code
- `incident_folder` is the folder of an incident: log.tar.xz, incident.toml, transcript.txt
"""
