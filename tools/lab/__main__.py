"""python -m tools.lab"""

from tools.lab.cli import app

app(prog_name="python -m tools.lab")
