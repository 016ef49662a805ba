"""Exports a log for other tools and other people.

- `lines` is the layout of JSON lines; `replay.description.as_json` converts the content
- `exporting` makes lines of a log, `importing` makes a log of lines, `files` opens the files
- `parquet` makes two tables of a log for analysis; there is no import from tables

JSON lines are exact: an exported and imported log has the same bytes in every record and the same
checksum chain, and its export has the same bytes again.
"""
