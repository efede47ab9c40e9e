"""`python -m benchmarks` measures, prints and keeps what it measured. No time is asserted anywhere."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.processes import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]


def benchmarks(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env=os.environ if path is None else {**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_a_benchmark_is_measured_printed_and_kept(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = benchmarks("--quick", "--only", "ledger", "--results", str(results))
    assert (done.returncode, done.stderr) == (0, "")
    kept = json.loads(results.read_text())
    assert set(kept) == {"machine", "sections"}
    [section] = kept["sections"]
    assert (section["title"], section["failure"]) == ("The ledger", "")
    assert [line["what"] for line in section["lines"]][:5] == [
        "append",
        "claim",
        "claim of an id that a caller brought",
        "append, two ledgers taking turns",
        'append, sync="always"',
    ]
    assert all(line["value"] > 0 for line in section["lines"])
    assert all(line["what"] in done.stdout for line in section["lines"])


def test_stopping_is_measured_through_a_session(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = benchmarks("--quick", "--only", "stopping", "--results", str(results))
    assert (done.returncode, done.stderr) == (0, "")
    [section] = json.loads(results.read_text())["sections"]
    judged = [line for line in section["lines"] if line["target"]]
    assert [line["target"] for line in judged] == ["<= 50"] * 4
    assert all(line["met"] is (line["value"] <= 50) for line in judged)
    assert f"{sum(line['met'] for line in judged)} of 4 targets met" in done.stdout


def test_calls_through_the_gate_are_measured_with_a_server_of_this_process(tmp_path: Path) -> None:
    """It stands in for the hub, so it must keep up with what the gate asks of one."""
    results = tmp_path / "results.json"
    done = benchmarks("--quick", "--only", "host_calls", "--results", str(results))
    assert (done.returncode, done.stderr) == (0, "")
    [section] = json.loads(results.read_text())["sections"]
    assert (section["title"], section["failure"]) == ("Host calls", "")
    values = {line["what"]: line["value"] for line in section["lines"]}
    assert isinstance(values.pop("what the audit costs (two records)"), float)  # a difference of two of them
    assert [what for what, value in values.items() if value <= 0] == []


def test_programs_in_runtimes_are_measured(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    with tempfile.TemporaryDirectory() as path:  # outside of tmp_path, which the user of jobs may not enter
        Path(path).chmod(0o755)
        for name in ("bash", "gcc"):
            found = shutil.which(name)
            assert found is not None
            Path(path, name).symlink_to(found)
        done = benchmarks("--quick", "--only", "runtimes", "--results", str(results), path=path)
    assert (done.returncode, done.stderr) == (0, "")
    [section] = json.loads(results.read_text())["sections"]
    assert section["failure"] == ""
    assert {line["what"]: line["target"] for line in section["lines"]} == {
        "shell, more than bare": "<= 12",
        "c, compiled and run, against bare": None,
        "c, out of the cache, against the ready program confined": "<= 1.3",
        "c, a computation out of the cache, against the ready program bare": "<= 1.3",
    }


def test_the_page_is_measured_in_a_browser(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = benchmarks("--quick", "--only", "web", "--results", str(results))
    assert (done.returncode, done.stderr) == (0, "")
    [section] = json.loads(results.read_text())["sections"]
    assert section["failure"] == ""
    assert {line["what"]: line["target"] for line in section["lines"]} == {
        "first byte of /runs with 200 runs, median": "<= 300",
        "weight of the heaviest page": "<= 150",
    }
    assert [line["what"] for line in section["lines"] if line["value"] <= 0] == []


def test_an_unknown_benchmark_is_refused() -> None:
    done = benchmarks("--only", "weather")
    assert done.returncode == 2
    assert "invalid choice: 'weather'" in done.stderr


def test_a_soak_has_every_call_answered_rightly_and_says_what_the_server_holds() -> None:
    """What it holds after a few seconds is still growing, so that is not judged here."""
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "0.05"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert "was expected" not in done.stdout
    assert "not answered" not in done.stdout
    assert "outlive" not in done.stdout
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["after the first minute", "at the end", "calls"]
    assert " MB anonymous, " in lines[0]
    assert lines[2].partition(" answered rightly")[0].removeprefix("calls: ").isdecimal()


def test_a_graders_day_has_every_verdict_right_and_no_refusal(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = benchmarks("--quick", "--only", "grading", "--results", str(results))
    assert (done.returncode, done.stderr) == (0, "")
    [section] = json.loads(results.read_text())["sections"]
    assert section["failure"] == ""
    values = {line["what"]: line["value"] for line in section["lines"]}
    assert [values[name] for name in values if name.startswith(("programs", "wrong"))] == [0, 0, 0, 0]
    assert values["rate of 40 programs over bare processes"] > 0
