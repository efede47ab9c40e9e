"""Show Paddock at work: programs over real MCP servers, computations, script tools, a session, hostile programs.

Everything goes through the command line that people use. The exit code is 1 when anything is not as promised.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from install_servers import install

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "demo"
SESSIONS = ROOT / "examples" / "sessions" / "sessions.py"
PADDOCK = Path(sys.executable).with_name("paddock")
COMMITS = 20
GRACE_MS = 20_000
"""How long after its limit a program must have ended, on a machine with other work too."""

REFUSAL = "the demo reads the repository and does not write to it"
HOSTILE = {
    "endless.ts": (1, {"timeout", "unavailable"}),  # the second one where other programs take all processors
    "greedy.js": (60, {"memory_limit"}),
    "escape.js": (60, {"failed"}),
}
"""The seconds each program gets, and how it must end."""
SERVERS = {"git", "files", "memory"}
FROST = {"cities": {"Oslo": 2, "Rome": 0}, "total": 2}
"""What the script tool says of the same temperatures."""
NOISY = "for n in range(20_000): print('reading', n, 'SENSOR FAULT' if n == 12_345 else 'fine')"
"""A program whose output nobody reads as a whole."""
BEFORE = "def f(w, h):\n    return w * h\n\n\nprint(f(6, 7))\n"
"""A file that a program refactors."""
REFACTOR = """
import pathlib, re
file = pathlib.Path("areas.py")
file.write_text(re.sub(r"\\bf\\(", "find_area(", file.read_text()))
pathlib.Path("notes.txt").write_text("renamed f to find_area\\n")
"""
TEMPERATURES = "Oslo: 3 readings, mean -1.5, highest 2.25"
"""Part of what the computation emits."""

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Paddock:
    """The installed command line, with the state of the demo."""

    state: Path
    repository: Path

    @property
    def audit(self) -> Path:
        return self.state / "audit"

    def __call__(
        self, *arguments: str, quiet: bool = False, given: str | None = None, errors: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; what it is called is shown, what it prints is returned.

        `given` is its standard input; `errors` says where its standard error goes, as for `subprocess`.
        """
        if not quiet:
            print(f"$ paddock {shlex.join(arguments)}", flush=True)
        command = [str(PADDOCK), *arguments]
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            input=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )

    def run(self, program: str, *arguments: str) -> Outcome:
        """Run a program of the demo and return its outcome."""
        place = os.path.relpath(EXAMPLES, ROOT)
        done = self("run", f"{place}/{program}", "-w", place, *arguments, "--json")
        return json.loads(done.stdout) if done.stdout else {"status": f"no outcome, exit {done.returncode}"}

    def answer(self, *arguments: str, given: Outcome | None = None) -> Outcome:
        """Run a command in the workspace of the demo and return its JSON; `given` are inputs on standard input."""
        further = [] if given is None else ["--input", "-"]
        body = None if given is None else json.dumps(given)
        place = os.path.relpath(EXAMPLES, ROOT)
        done = self(*arguments, *further, "-w", place, "--json", given=body, errors=subprocess.DEVNULL)
        return json.loads(done.stdout)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its processes."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
        return {
            **own,
            "PADDOCK_ARTIFACTS_DIRECTORY": str(self.state / "artifacts"),
            "PADDOCK_AUDIT_DIRECTORY": str(self.audit),
            "PADDOCK_OVERLAY_DIRECTORY": str(self.state / "changes"),
            "PADDOCK_SERVERS_CONFIG": str(EXAMPLES / "mcp.json"),
            "DEMO_STATE": str(self.state),
            "DEMO_REPOSITORY": str(self.repository),
        }


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, default=ROOT / ".demo", help="where the demo keeps its files")
    parser.add_argument("--repository", type=Path, default=ROOT, help="whose history is read")
    options = parser.parse_args()
    paddock = Paddock(options.state.resolve(), options.repository.resolve())

    heading("Installing three MCP servers")
    install(paddock.state / "servers")
    (paddock.state / "memory.jsonl").unlink(missing_ok=True)

    broken = friendly(paddock) + computed(paddock) + tools(paddock) + programs(paddock) + session(paddock)
    broken += review_changes(paddock) + hostile(paddock) + record(paddock)
    heading("Done" if not broken else "Not as promised")
    for text in broken:
        print(f"  {text}")
    return 1 if broken else 0


def friendly(paddock: Paddock) -> list[str]:
    """Run the program over three servers, show what became of it, and return what is wrong."""
    heading("A TypeScript program over three MCP servers, from inside a confined V8")
    value = json.dumps({"repository": str(paddock.repository), "commits": COMMITS})
    outcome = paddock.run("demo.ts", "--input", value)
    if outcome["status"] != "ok":
        return [f"demo.ts: {outcome['status']}: {outcome.get('error')}"]
    report = outcome["value"]
    for line in outcome["console"]:
        print(line["text"])
    print(json.dumps(report, indent=2))
    summary(paddock, outcome)
    called = {call["server"] for call in outcome["calls"]}
    records = json.loads(paddock("audit", "show", outcome["id"], "--json", quiet=True).stdout)
    promises = {
        "every server was called": called == SERVERS,
        "commits were read": 0 < report["commits"] <= COMMITS,
        "areas were ranked": report["areas"] > 0,
        "the graph kept the ranking": report["relations"]
        == len(report["remembered"]) - 1
        == min(report["areas"], 5),
        "writing was refused": report["refused"] == REFUSAL,
        "the program and each of its calls are on the record": len({record["request"] for record in records})
        == 1 + len(outcome["calls"]),
    }
    return [f"demo.ts: not kept: {text}" for text, kept in promises.items() if not kept]


def computed(paddock: Paddock) -> list[str]:
    """Compute a text from a text, twice the same, and return what is wrong."""
    heading("A pure computation: one text in, one text out, and nothing else in reach")
    source = (EXAMPLES / "statistics.js").read_text()
    body = json.dumps({"source": source, "input": (EXAMPLES / "temperatures.csv").read_text()})
    first, second = (paddock("compute", given=body) for _ in range(2))
    if first.returncode != 0:
        return [f"statistics.js: exit {first.returncode}"]
    print(json.loads(first.stdout)["output"])
    broken = [] if first.stdout == second.stdout else ["statistics.js: two runs did not emit the same"]
    return broken if TEMPERATURES in first.stdout else [*broken, "statistics.js: not the expected statistics"]


def tools(paddock: Paddock) -> list[str]:
    """Run a script tool, once with inputs that its schema refuses, and a sequence over it; return what is wrong."""
    heading("A script tool behind a schema, and a sequence over it")
    readings = (EXAMPLES / "temperatures.csv").read_text()
    counted = paddock.answer("tool", "run", "frost", given={"readings": readings, "at_most": 0})
    print(f"  {json.dumps(counted['output'])}")
    refused = paddock.answer("tool", "run", "frost", given={"readings": readings, "at_most": 99})
    print(f"  refused: {refused['error']}")
    swept = paddock.answer("sequence", "run", "frost")
    steps = {step["name"]: step for step in swept["steps"]}
    said = steps["sentence"]["value"]["stdout"]
    print("".join(f"  step {name}: {step['status']}\n" for name, step in steps.items()) + f"  {said.strip()}")
    promises = {
        "the tool counts": counted["success"] and counted["output"] == FROST,
        "its schema refuses": not refused["success"] and "at_most" in refused["error"],
        "the sequence ends with a sentence": swept["ok"] and said == "it froze 2 times\n",
    }
    return [f"frost: not kept: {text}" for text, kept in promises.items() if not kept]


def programs(paddock: Paddock) -> list[str]:
    """Run a program that prints much, find one line of it in stored output, and return what is wrong."""
    heading("A program in Python, whose output is kept and searched")
    ran = paddock.answer("exec", "python", "-c", NOISY, "--mode", "minimal")
    print(f"  {ran['status']}, {ran['outputLines']} lines, kept as {ran['artifactHandle']}")
    found = paddock.answer("output", "query", ran["artifactHandle"], "--term", "fault", "--context", "0")
    lines = [excerpt["content"] for excerpt in found["excerpts"]]
    print("".join(f"  found: {line}\n" for line in lines), end="")
    return [] if lines == ["reading 12345 SENSOR FAULT"] else [f"stored output: found {lines}"]


def session(paddock: Paddock) -> list[str]:
    """Make a table and a picture in three calls of one session, over MCP, and return what is wrong."""
    heading("A Python session over MCP: a CSV file in, a table and a picture out, in three calls")
    picture = paddock.state / "visits.png"
    picture.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, str(SESSIONS), str(paddock.state)],
        env=paddock.environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout.replace(str(paddock.state), shown(paddock.state)), end="")
    promises = {
        "every call worked": done.returncode == 0,
        "the second call summed what the first one read": "Rome    1710" in done.stdout,
        "the third one drew it": picture.exists() and picture.read_bytes().startswith(b"\x89PNG"),
    }
    return [f"sessions.py: not kept: {text}" for text, kept in promises.items() if not kept]


def summary(paddock: Paddock, outcome: Outcome) -> None:
    """Print what ran, what it was allowed, and where the record is."""
    usage, sandbox = outcome["usage"], outcome["sandbox"]
    limits, grants = outcome["decision"]["limits"], outcome["decision"]["grants"]
    calls = Counter(f"{call['server']} {call['status']}" for call in outcome["calls"])
    rows = {
        "ran": f"demo.ts, {usage['wall_ms']:.0f} ms, {usage['cpu_ms']:.0f} ms of it computing, "
        f"{usage['peak_bytes'] / 2**20:.0f} MiB at most",
        "confined by": f"{sandbox['tier']}: {', '.join(sandbox['layers'])}",
        "left open": ", ".join(sandbox["residual"]) or "nothing that these layers know of",
        "allowed": f"servers {', '.join(grants['servers'])}; just-in-time compiler {'on' if grants['jit'] else 'off'}",
        "calls": f"{len(outcome['calls'])}: " + ", ".join(f"{name} {count}" for name, count in calls.items()),
        "limits": f"{limits['timeout_ms'] / 1000:.0f} s, {limits['memory_bytes'] / 2**20:.0f} MiB, "
        f"{limits['host_calls']} calls, {limits['output_bytes'] / 2**20:.0f} MiB of output",
        "record": f"{shown(PADDOCK)} audit show {outcome['id']} --set audit.directory={shown(paddock.audit)}",
    }
    print()
    for name, text in rows.items():
        print(f"  {name:12} {text}")


def review_changes(paddock: Paddock) -> list[str]:
    """Let a program refactor a file in an overlay, accept one path, discard the other, and return what is wrong."""
    heading("A program that refactors a file, and a person who accepts the difference")
    workspace = paddock.state / "review"
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    (workspace / "areas.py").write_text(BEFORE)
    place = os.path.relpath(workspace, ROOT)
    ran = paddock(
        "exec", "--access", "overlay", "python", "-c", REFACTOR, "-w", place, errors=subprocess.DEVNULL
    )
    untouched = (workspace / "areas.py").read_text() == BEFORE
    sets = json.loads(paddock("changes", "list", "-w", place, "--json", quiet=True).stdout)
    if ran.returncode or len(sets) != 1:
        return [f"refactoring: exit {ran.returncode}, {len(sets)} change sets"]
    made = sets[0]["id"]
    print(paddock("changes", "diff", made, "-w", place).stdout, end="")
    accepted = json.loads(paddock("changes", "accept", made, "areas.py", "-w", place, "--json").stdout)
    paddock("changes", "discard", made, "-w", place, errors=subprocess.DEVNULL)
    promises = {
        "the workspace stayed as it was": untouched,
        "the named path was accepted": accepted["paths"] == ["areas.py"],
        "the program's version is in the workspace": "def find_area" in (workspace / "areas.py").read_text(),
        "the other path was discarded": not (workspace / "notes.txt").exists(),
    }
    return [f"refactoring: not kept: {text}" for text, kept in promises.items() if not kept]


def hostile(paddock: Paddock) -> list[str]:
    """Run the programs that mean harm, show how each one ended, and return what is wrong."""
    heading("Three hostile programs")
    broken: list[str] = []
    for program, (seconds, expected) in HOSTILE.items():
        outcome = paddock.run(program, "--timeout", str(seconds))
        status, wall_ms = outcome["status"], outcome.get("usage", {}).get("wall_ms", 0.0)
        error = outcome.get("error") or {}
        print(f"  {status} after {wall_ms:.0f} ms: {error.get('name')}: {error.get('message')}")
        if status not in expected or wall_ms > seconds * 1000 + GRACE_MS:
            wanted = " or ".join(sorted(expected))
            broken.append(
                f"{program}: expected {wanted} within the limit, got {status} after {wall_ms:.0f} ms"
            )
        if program == "escape.js" and error.get("name") != "EvalError":
            broken.append(f"{program}: expected an EvalError, got {error}")
    return broken


def record(paddock: Paddock) -> list[str]:
    """Verify the ledger and return what is wrong."""
    heading("The record")
    done = paddock("audit", "verify")
    print(done.stdout.replace(str(paddock.audit), shown(paddock.audit)), end="")
    return [] if done.returncode == 0 else ["the ledger does not verify"]


def heading(text: str) -> None:
    """Print the title of a part."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def shown(path: Path) -> str:
    """Return a path as people at the root of the project type it."""
    return os.path.relpath(path, ROOT)


if __name__ == "__main__":
    sys.exit(main())
