"""`refold fleet report`: the results of an analysis as one HTML page that works offline.

- `collect` queries the tables (`queries`); `findings` are the results: a few hundred rows whatever
  the size of the fleet, with the events of some incidents
- `charts` draws charts; `tables`, `details` and `page` write HTML. Text from logs is escaped, never
  markup
- `write` writes the file

The page contains plotly's script, page.css and page.js.
"""
