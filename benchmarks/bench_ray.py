"""Many short programs by `Paddock.map` on a Ray cluster of this machine, and by the same `map` without Ray."""

import importlib.util
import os
import secrets
import tempfile
from statistics import median

from benchmarks.bench_batch import run_map
from benchmarks.measure import Line, Scale, at_least, interleaved, milliseconds, ratio
from paddock import BlockingPaddock

TITLE = "Batches on Ray"
NOTE = "Measured where Ray is installed, which `make setup` leaves out: `pip install 'paddock-sandbox[ray]'`."

_PARALLEL = 2
_OBJECT_STORE_BYTES = 100 * 1024 * 1024


def measure(scale: Scale) -> list[Line]:
    if importlib.util.find_spec("ray") is None:
        return [Line("programs that were measured", 0, "", note="Ray is not installed in this environment")]
    import ray  # pyright: ignore[reportMissingImports]

    # Ray would otherwise keep a token in the user's home, and report its use.
    os.environ |= {"RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="paddock-bench-", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=_PARALLEL,
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
        )
        try:
            return _measure_rate(folder, scale)
        finally:
            ray.shutdown()


def _measure_rate(workspace: str, scale: Scale) -> list[Line]:
    rounds, programs = scale.of(6, 1), scale.of(100, 40)
    with BlockingPaddock(workspace, overrides={"runtimes.max_jobs": _PARALLEL}) as p:

        def run_here() -> None:
            run_map(p, programs, max_parallel=_PARALLEL)

        def run_on_ray() -> None:
            run_map(p, programs, engine="ray")

        run_on_ray()  # its workers open their Paddocks
        figures = interleaved(
            {"ray": lambda: milliseconds(run_on_ray), "here": lambda: milliseconds(run_here)}, rounds
        )
    rates = {who: programs * 1000 / median(spent) for who, spent in figures.items()}
    what = f"{rounds * programs} programs of 50 ms, rate of `map` on Ray against `map` without it"
    return [
        Line(what, ratio(figures["here"], figures["ray"]), "x", at_least(0.9)),
        Line("programs of 50 ms on Ray, two CPUs", rates["ray"], "runs/s"),
        Line("floor: the same without Ray, two at a time", rates["here"], "runs/s"),
    ]
