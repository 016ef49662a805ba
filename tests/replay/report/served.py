"""A server of reports in another thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay.report.serving import ReportServer


@contextmanager
def served(folder: Path) -> Iterator[ReportServer]:
    """Serve the logs of a folder until the end of the `with` block."""
    with ReportServer(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
