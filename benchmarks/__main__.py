"""Measure Paddock: `python -m benchmarks [--quick] [--only NAME] [--write-docs]`.

Exits with 1 when something could not be measured. A missed target is told, not punished: machines differ.
"""

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks import reference, report
from benchmarks.measure import Line, Scale

NAMES = (
    "execution",
    "compute",
    "host_calls",
    "hub",
    "command_line",
    "programs",
    "sandbox",
    "supervised",
    "runtimes",
    "overlay",
    "sessions",
    "batch",
    "ray",
    "packages",
    "network",
    "payloads",
    "stopping",
    "ledger",
    "record",
    "cluster",
    "shipping",
    "discovery",
    "mcp",
    "web",
    "types",
    "grading",
    "rivals",
)


def main() -> int:
    arguments = _arguments()
    scale = Scale(quick=arguments.quick)
    facts = report.machine()
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    sections: list[report.Section] = []
    for name in arguments.only or NAMES:
        sections.append(_section(name, scale))
        print(f"\n{report.table(sections[-1])}", flush=True)
    print(f"\n{report.summary(sections)}")
    report.write_results(arguments.results, sections, facts)
    if arguments.write_docs:
        report.write_page(sections, facts)
    return int(any(section.failure for section in sections))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure Paddock next to its peers."
    )
    parser.add_argument(
        "--quick", action="store_true", help="few rounds: shows that everything can be measured"
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="measure this; repeat it for more")
    parser.add_argument("--results", type=Path, default=report.RESULTS, help="JSON file to write")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md")
    return parser.parse_args()


def _section(name: str, scale: Scale) -> report.Section:
    benchmark = import_module(f"benchmarks.bench_{name}")
    lines: list[Line] = []
    failure = ""
    before, started = reference.slowness(), time.perf_counter()
    try:
        lines = benchmark.measure(scale)
    except Exception as error:  # noqa: BLE001 - one benchmark's trouble is not another's
        failure = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    slowness = (before + reference.slowness()) / 2
    return report.Section(benchmark.TITLE, seconds, lines, slowness, failure, getattr(benchmark, "NOTE", ""))


if __name__ == "__main__":
    sys.exit(main())
