"""The page in a browser: the first byte of a month of runs, and what a browser loads for a page.

The record is written once (`run_records.py`), and its index is made by the load before the first that counts. Each load
is one of a new context, without cache. Loopback has no latency: the first byte is what the server computes.
"""

import tempfile
from pathlib import Path
from statistics import median

from tests.support.browser import BrowserPages, open_browser
from tests.support.web import PAGES, WebPlace

from benchmarks.measure import Line, Scale, at_most
from benchmarks.run_records import write_runs

TITLE = "The page"

_FIRST_BYTE = """() => {
  const { requestStart, responseStart } = performance.getEntriesByType("navigation")[0];
  return responseStart - requestStart;
}"""
_LOADED = """() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind)).reduce(
  (sum, { transferSize }) => sum + transferSize, 0)"""


def measure(scale: Scale) -> list[Line]:
    count = scale.of(10_000, 200)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as directory:
        place = WebPlace(Path(directory))
        state = place.home / ".local/state/paddock"
        state.mkdir(parents=True, mode=0o700)
        run = write_runs(state / "audit", count)
        with place.serve_page() as server, open_browser() as browser, BrowserPages(browser, server) as pages:
            waits = [_load(pages, "/runs", _FIRST_BYTE) for _ in range(scale.of(11, 2))][1:]
            sizes = {path: _load(pages, path, _LOADED) / 1000 for path in (*PAGES, f"/runs/{run}")}
    heaviest = max(sizes, key=lambda path: sizes[path]).replace(run, "ID")
    return [
        Line(f"first byte of /runs with {count:,} runs, median", median(waits), "ms", at_most(300)),
        Line("weight of the heaviest page", max(sizes.values()), "kB", at_most(150), note=heaviest),
    ]


def _load(pages: BrowserPages, path: str, question: str) -> float:
    """Load a page in a new context, and return what a script says of it."""
    page = pages.open(path)
    figure = page.evaluate(question)
    page.context.close()
    return figure
