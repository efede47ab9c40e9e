"""`python -m benchmarks` measures, prints and keeps what it measured. No time is asserted anywhere."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_benchmark_is_measured_printed_and_kept(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = benchmarks("--quick", "--only", "ledger", "--results", str(results))
    assert (done.returncode, done.stderr) == (0, "")
    kept = json.loads(results.read_text())
    assert set(kept) == {"machine", "sections"}
    [section] = kept["sections"]
    assert (section["title"], section["failure"]) == ("The ledger", "")
    assert [line["what"] for line in section["lines"]][:4] == [
        "append",
        "claim",
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


def test_an_unknown_benchmark_is_refused() -> None:
    done = benchmarks("--only", "weather")
    assert done.returncode == 2
    assert "invalid choice: 'weather'" in done.stderr
