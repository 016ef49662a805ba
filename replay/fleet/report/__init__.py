"""`refold fleet report`: what an analysis found, as one page that opens anywhere, also offline.

- `gathering` asks the tables, `queries` is what is asked; `findings` is what came of it: some
  hundred rows whatever the fleet's size, and of some incidents what was observed and written
- `charts` draws, `tables` and `page` write HTML; what comes of a log is text there, never markup

Beside this folder's code the page holds plotly's own, page.css and page.js.
"""
