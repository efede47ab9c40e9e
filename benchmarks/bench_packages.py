"""Packages: a program with an environment that is there, and the first one, which makes it, next to bare uv."""

import base64
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, at_most, interleaved, milliseconds
from paddock import BlockingPaddock
from paddock.engines.programs.package_environment import find_uv

TITLE = "Packages of Python programs, against bare uv"

_PACKAGES = 12
_MODULES = 40
_CODE = "import package_0.module_0 as each; print(each.value(41))"
_OWN_MS = 100
"""What making an environment may take more than 1.3 times what uv takes, in milliseconds."""


def measure(scale: Scale) -> list[Line]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-packages-")))
        index = stack.enter_context(_serve(folder / "index"))
        os.environ["UV_DEFAULT_INDEX"] = index
        return [*_warm(folder, stack, scale), *_creation(folder, index, stack, scale)]


def _open(
    folder: Path, stack: ExitStack, store: Path, further: dict[str, str] | None = None
) -> BlockingPaddock:
    (folder / "workspace").mkdir(exist_ok=True)
    overrides = {
        "packages": {"network": "full", "directory": str(store)},
        "artifacts.enabled": False,
        "runtimes.timeout_ms": 60_000,
        **(further or {}),
    }
    return stack.enter_context(BlockingPaddock(folder / "workspace", overrides=overrides))


def _run(paddock: BlockingPaddock, code: str, packages: list[str]) -> None:
    outcome = paddock.exec("python", code, packages=packages, outputs=[], keep=False)
    assert outcome.ok, outcome.error


def _warm(folder: Path, stack: ExitStack, scale: Scale) -> list[Line]:
    paddock = _open(folder, stack, folder / "warm")
    venv.create(folder / "empty", symlinks=True)
    plain = _open(folder, stack, folder / "none", {"runtimes.python.environment": str(folder / "empty")})
    wanted = [f"package-{number}" for number in range(_PACKAGES)]
    _run(paddock, _CODE, wanted)
    contenders = {
        "with": lambda: milliseconds(lambda: _run(paddock, "print(42)", wanted)),
        "without": lambda: milliseconds(lambda: _run(plain, "print(42)", [])),
    }
    figures = interleaved(contenders, scale.of(40, 3))
    p50 = {name: median(values) for name, values in figures.items()}
    return [
        Line("a program in an empty environment, p50", p50["without"], "ms"),
        Line("an environment that is there adds, p50", p50["with"] - p50["without"], "ms", at_most(10)),
    ]


def _creation(folder: Path, index: str, stack: ExitStack, scale: Scale) -> list[Line]:
    numbers = itertools.count()
    wanted = [f"package-{number}" for number in range(_PACKAGES)]

    def bare() -> None:
        place = folder / f"bare-{next(numbers)}"
        uv, python = str(find_uv() or "uv"), str(place / "bin" / "python")
        environment = {**os.environ, "UV_CACHE_DIR": f"{place}-cache", "UV_DEFAULT_INDEX": index}
        options = ["--only-binary", ":all:", "--compile-bytecode", "--quiet"]
        for words in (
            [uv, "venv", "--quiet", "--python", sys.executable, str(place)],
            [uv, "pip", "install", "--python", python, *options, *wanted],
            [python, "-c", _CODE],
        ):
            subprocess.run(words, check=True, capture_output=True, env=environment)

    store = folder / "stores"
    paddock = _open(folder, stack, store)

    def ours() -> None:
        _run(paddock, _CODE, wanted)

    def fresh() -> float:
        shutil.rmtree(store, ignore_errors=True)
        return milliseconds(ours)

    figures = interleaved({"bare": lambda: milliseconds(bare), "ours": fresh}, scale.of(8, 1))
    p50 = {name: median(values) for name, values in figures.items()}
    most = at_most(1.3)
    return [
        Line("peer: uv venv, uv pip install and python, no cache, p50", p50["bare"], "ms"),
        Line("the first program with new packages, p50", p50["ours"], "ms"),
        Line(f"the same without {_OWN_MS} ms, to the peer", (p50["ours"] - _OWN_MS) / p50["bare"], "x", most),
    ]


@contextmanager
def _serve(root: Path) -> Iterator[str]:
    """Serve an index of small packages on loopback."""
    for number in range(_PACKAGES):
        folder = root / "simple" / f"package-{number}"
        folder.mkdir(parents=True)
        _write_wheel(folder, f"package_{number}")
    words = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().split()[5])
        try:
            yield f"http://127.0.0.1:{port}/simple"
        finally:
            server.kill()


def _write_wheel(folder: Path, name: str) -> None:
    info = f"{name}-1.0.dist-info"
    body = "".join(f"def function_{number}(given):\n    return given + {number}\n" for number in range(50))
    content = {
        f"{name}/__init__.py": "",
        **{f"{name}/module_{each}.py": f"{body}value = function_1\n" for each in range(_MODULES)},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines: list[str] = []
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}\n")
    content[f"{info}/RECORD"] = "".join(lines)
    file = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, text in content.items():
            wheel.writestr(path, text)
    # As public indexes do, it has checksums and metadata beside the wheels (PEP 503, PEP 658).
    file.with_name(f"{file.name}.metadata").write_text(content[f"{info}/METADATA"])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    link = f'<a href="{file.name}#sha256={digest}" data-core-metadata="true">{file.name}</a>'
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{link}</body></html>")
