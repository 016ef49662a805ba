"""A log as something else, for other tools and for other people.

- `lines` is the layout of JSON lines; a stored payload becomes JSON, and bytes again, in
  replay.description.as_json
- `exporting` makes lines of a log, `importing` a log of lines, `files` opens what they go to
- `parquet` makes two tables of a log, for analysis: it has no way back
- `redaction` is the room for sharing an incident without the names in it

JSON lines are exact: a log that is exported and imported again has the same bytes in every record
and the same checksum chain, and exports to the same bytes.
"""
