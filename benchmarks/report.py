"""What was measured, as a plain table, as JSON and as a page of the documentation."""

import json
import os
import platform
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import bench_rivals, peers, plot, reference
from benchmarks.measure import Line

RESULTS = Path(__file__).parent / "results" / "latest.json"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class Section:
    """The lines of one benchmark, or why there are none."""

    title: str
    seconds: float
    lines: list[Line]
    slowness: float
    """See `benchmarks.reference`; of the moments before and after."""
    failure: str = ""
    note: str = ""
    """What the page says above the table."""


def table(section: Section) -> str:
    """Return a section for the terminal."""
    rows = [
        (line.what, _figure(line.value), line.unit, _verdict(line, section.slowness), line.note)
        for line in section.lines
    ]
    width = max((len(row[0]) for row in rows), default=0)
    texts = [f"{section.title}  ({section.seconds:.0f} s, {section.slowness:.2f} x as slow as there)"]
    texts += [f"  {w:{width}} {f:>10} {u:9} {v:30} {n}".rstrip() for w, f, u, v, n in rows]
    if section.failure:
        texts.append(f"  NOT MEASURED: {section.failure}")
    return "\n".join(texts)


def machine() -> dict[str, object]:
    """Return the facts of this machine that figures depend on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "node": peers.version(peers.node()) if shutil.which("node") else "none",
        "deno": peers.deno_release(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def summary(sections: list[Section]) -> str:
    """Return how many targets were met, here and there."""
    judged = [(line, section.slowness) for section in sections for line in section.lines if line.target]
    here = sum(bool(line.met) for line, _ in judged)
    there = sum(bool(line.met_there(slowness)) for line, slowness in judged)
    return f"{here} of {len(judged)} targets met, {there} at the speed of the machine that they were set on"


def write_results(target: Path, sections: list[Section], facts: dict[str, object]) -> None:
    """Write everything as JSON."""
    target.parent.mkdir(exist_ok=True)
    found = {"machine": facts, "sections": [_plain(section) for section in sections]}
    target.write_text(json.dumps(found, indent=2) + "\n")


def write_page(sections: list[Section], facts: dict[str, object]) -> None:
    """Write `docs/benchmarks.md`."""
    PAGE.parent.mkdir(exist_ok=True)
    slow = [section.slowness for section in sections]
    there = ", ".join(f"`{name}` {ms:g}" for name, ms in reference.THERE_MS.items())
    parts = [_HEAD.format(**facts, there=there, least=min(slow), most=max(slow), summary=summary(sections))]
    for section in sections:
        note = f"{section.note}\n\n" if section.note else ""
        parts.append(
            f"## {section.title}\n\n{note}| | measured | there | target | |\n|---|---:|---:|---:|---|"
        )
        parts[-1] += "".join(
            f"\n| {line.what} | {_figure(line.value)} {line.unit} | {_there(line, section.slowness)} "
            f"| {line.target or ''} | {mark_change(line, section.slowness)} |"
            for line in section.lines
        )
        if section.title == bench_rivals.TITLE and section.lines:
            plot.draw(section.lines)
            parts[-1] += (
                f"\n\n![The same as bars, each row on a separate logarithmic scale]({plot.PAGE.name})"
            )
    PAGE.write_text("\n\n".join(parts) + "\n")


_HEAD = """<!-- Written by `python -m benchmarks --write-docs`. -->
# Benchmarks

Measured by `make bench` with Python {python}, Node.js {node} and Deno {deno}, on {cores} shared cores ({processor}),
Linux {kernel}.
Whatever is compared ran in the same rounds, in an order that turns; a figure is the median over the rounds, a ratio
the median of the ratios within a round. Paddock's programs are confined and recorded; node and deno are neither.

Targets in units of time were set on one machine, and this is another, which may have been busy. So around each section
three things are timed that have nothing to do with Paddock. On that machine they took {there} ms,
here {least:.2f} to {most:.2f} times as long. *There* is what a figure comes to at the speed of that machine: a time divided
by this, a rate multiplied. {summary}."""


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _there(line: Line, slowness: float) -> str:
    there = line.there(slowness)
    return "" if line.target is None or there == line.value else _figure(there)


def _verdict(line: Line, slowness: float) -> str:
    if line.target is None:
        return ""
    there = _there(line, slowness)
    return f"{line.target} {'met' if line.met else 'MISSED'}{there and f', there {there}'}"


def mark_change(line: Line, slowness: float) -> str:
    told = "" if line.target is None else "met" if line.met else "**missed**"
    if line.met != line.met_there(slowness):
        told += ", met there" if line.met_there(slowness) else ", **missed** there"
    return "; ".join(text for text in (told, line.note) if text)


def _plain(section: Section) -> dict[str, object]:
    lines = [
        {
            **asdict(line),
            "target": line.target and str(line.target),
            "met": line.met,
            "there": line.there(section.slowness),
            "met_there": line.met_there(section.slowness),
        }
        for line in section.lines
    ]
    return {**asdict(section), "lines": lines}
