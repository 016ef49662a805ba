"""Measures a report of a long log in Chromium: the first picture, and frames while it moves.

    python -m tools.bench.report

Bias: the log is that of tools.bench.inspect, with 1,000 partitions. Chromium draws without a GPU.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from playwright.sync_api import Page, sync_playwright

from replay.logs.open_log import open_log
from replay.report.building import report_of
from replay.report.html import page_of
from tools.bench.inspect import make_log

_CHROMIUM = "/usr/bin/chromium"
_FRAMES = 60
_MOVE = """([act, frames]) => new Promise(done => {
  let left = frames, begun = performance.now(), last = begun, worst = 0;
  const all = view.to - view.from;
  const step = () => {
    const now = performance.now(); worst = Math.max(worst, now - last); last = now;
    if (!left--) return done([frames / (now - begun) * 1000, worst]);
    if (act === 'pan') changed({from: view.from + all / 200, to: view.to + all / 200});
    else zoom(left > frames / 2 ? 0.93 : 1.07);
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def main(
    events: Annotated[int, typer.Option(help="Events of the log.")] = 100_000,
    keep: Annotated[Path | None, typer.Option(help="Keep the report here.")] = None,
) -> None:
    """Make a log and its report, and measure the page."""
    with TemporaryDirectory(prefix="refold-bench-") as folder:
        path, file = Path(folder) / "log", keep or Path(folder) / "report.html"
        make_log(path, events)
        begun = time.perf_counter()
        with open_log(path) as log:
            page = page_of([report_of(log, str(path))])
        file.write_text(page, encoding="utf-8")
        seconds = time.perf_counter() - begun
        typer.echo(f"report of {events:,} events: {seconds:.1f} s, {len(page):,} bytes")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
            _measure(browser.new_page(viewport={"width": 1400, "height": 1000}), file)
            browser.close()


def _measure(page: Page, file: Path) -> None:
    page.goto(file.resolve().as_uri())
    page.locator("#kind option").nth(1).wait_for(state="attached")
    painted = page.evaluate("performance.getEntriesByName('painted')[0].startTime")
    typer.echo(f"first picture after {painted:.0f} ms")
    for act in ("pan", "zoom"):
        rate, worst = page.evaluate(_MOVE, [act, _FRAMES])
        typer.echo(f"{act}: {rate:.0f} frames a second, slowest frame {worst:.0f} ms")


if __name__ == "__main__":
    typer.run(main)
