"""Run a conversation of several executions in a session, and in what a person would use instead of one."""

import base64
import hashlib
import io
import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from PIL import Image

from paddock import BlockingPaddock, Outcome

FOLDER = Path(__file__).parent / "conversations"
_KERNEL = """
import sys
from ipykernel import iostream
write = iostream.OutStream.write
def write_through(self, text):
    count = write(self, text)
    self.flush()
    return count
iostream.OutStream.write = write_through
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""
"""A kernel of Jupyter that keeps the order of standard output and standard error: each write is sent at once."""
_KERNEL_R = """
options(jupyter.rich_display = FALSE)
for (kind in c("data.frame", "matrix"))
  registerS3method("repr_text", kind, repr:::repr_text.default, envir = asNamespace("repr"))
IRkernel::main()
"""
"""A kernel that prints values as R does."""
_NODE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);\n"
_MARK = "--- next cell ---"
_VARYING = (
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "0x"),
    (re.compile(r"/tmp/ipykernel_\d+/\d+\.py|(?<![\w/])\d{6,}\.py|In \[\d+\]"), "CELL"),
    (re.compile(r"Warning message(?: in .*)?:\n“(.*)”|Warning in .* :\s+(.*)"), r"Warning: \1\2"),
    (re.compile(r"/(?:tmp|var/tmp)/[\w./-]+|PADDOCK_WORKDIR"), "PATH"),
)


class Turn(NamedTuple):
    """What one execution shows."""

    text: str = ""
    """Its output and the values without images, in order; without the report of an error."""
    html: tuple[str, ...] = ()
    images: tuple[tuple[tuple[int, int], str], ...] = ()
    """Size and digest of the pixels."""
    error: str = ""
    """Name and message."""


class Course(NamedTuple):
    """A whole conversation."""

    turns: list[Turn]
    files: dict[str, object]


def read_cells(path: Path) -> list[str]:
    """Return the texts of a conversation."""
    cells = re.split(r"^(?:#|//) %%.*\n", path.read_text(), flags=re.MULTILINE)
    return [cell.strip("\n") for cell in cells if cell.strip()]


def run_session(
    workspace: Path, language: str, cells: Iterable[str], overrides: Mapping[str, object]
) -> Course:
    """Run the texts in one session."""
    with BlockingPaddock(workspace, overrides=overrides) as p, p.session(language) as s:
        turns = [READERS[language](s.run(cell)) for cell in cells]
        return Course(turns, {file.path: _normalize_file(file.path, file.read()) for file in s.files.list()})


def _read_outcome(outcome: Outcome) -> Turn:
    text, error = outcome.text, ""
    assert outcome.session is not None, outcome
    assert outcome.session.state == "kept", outcome
    if outcome.error is not None:
        error = outcome.error.message
        reported = [
            re.search(pattern, text, re.MULTILINE)
            for pattern in (
                r"^(?:  \+ Exception Group )?Traceback \(most recent call last\):$",
                r'^  File "In \[\d+\]"',
                r"^Error\b.*",
            )
        ]
        places = [found.start() for found in reported if found is not None]
        assert places, text
        report, text = text[min(places) :], text[: min(places)]
        assert error.splitlines()[0].partition(" (In [")[0].removeprefix("Error: ") in report, report
    return Turn(
        _normalize(text),
        tuple(_normalize(result.html) for result in outcome.results if result.html is not None),
        tuple(_read_pixels(image) for image in outcome.images),
        _normalize(error),
    )


def _read_node_outcome(outcome: Outcome) -> Turn:
    """Read an outcome without the last value, which a program of node does not print."""
    text = outcome.text
    if outcome.results:
        text = text.removesuffix(outcome.results[-1].text + "\n")
    if outcome.error is None:
        return Turn(_normalize(text))
    report = re.search(r"^(?:In \[\d+\]:\d+|(?:Uncaught )?\w*Error\b.*)", text, re.MULTILINE)
    assert report is not None, text
    return Turn(_normalize(text[: report.start()]), error=_normalize(outcome.error.message.splitlines()[0]))


def _read_r_outcome(outcome: Outcome) -> Turn:
    """Read an outcome without the tables of R, which have our own form; a separate test looks at them."""
    return _read_outcome(outcome)._replace(html=())


READERS = {"python": _read_outcome, "node": _read_node_outcome, "r": _read_r_outcome}


def write_kernels(folder: Path, python: Path) -> Path:
    """Write descriptions of the kernels of Jupyter below `folder` and return it."""
    launches = {
        "python": [python, "-c", _KERNEL, "--HistoryManager.enabled=False", "-f", "{connection_file}"],
        "r": ["R", "--no-echo", "-e", _KERNEL_R, "--args", "{connection_file}"],
    }
    for name, command in launches.items():
        (place := folder / f"reference-{name}").mkdir(parents=True)
        described = {"argv": [str(part) for part in command], "display_name": name, "language": name}
        (place / "kernel.json").write_text(json.dumps(described))
    return folder


def run_kernel(
    kernels: Path, folder: Path, name: str, cells: Iterable[str], env: Mapping[str, str]
) -> Course:
    """Run the texts in one kernel of Jupyter, in an empty folder."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    specs = KernelSpecManager(kernel_dirs=[str(kernels)], ensure_native_kernel=False)
    manager = AsyncKernelManager(kernel_name=f"reference-{name}", kernel_spec_manager=specs)
    client = NotebookClient(
        notebook, km=manager, allow_errors=True, timeout=120, resources={"metadata": {"path": str(folder)}}
    )
    client.owns_km = True  # otherwise nobody ends the kernel
    client.execute(env=dict(env), stderr=subprocess.DEVNULL)
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return Course(
        [_read_outputs(cell.outputs, name) for cell in notebook.cells],
        {name: _normalize_file(name, path.read_bytes()) for name, path in files.items()},
    )


def _read_outputs(outputs: Sequence[Any], name: str) -> Turn:
    text, error, html, images = "", "", [], []
    for output in outputs:
        if output.output_type == "stream":
            text += output.text
            if (name, output.name) == ("r", "stderr") and text.endswith("\n\n"):
                text = text[:-1]  # that kernel ends messages with an empty line
        elif output.output_type == "error":
            error = f"{output.ename}: {output.evalue}".removesuffix(": ").rstrip("\n")
            error = re.sub(r"^ERROR: Error(?: in .*?)?: ", "Error: ", error)
        else:
            data = output.data
            image = data.get("image/png") or data.get("image/jpeg")
            if image:
                images.append(_read_pixels(base64.b64decode(image)))
            else:
                text += data["text/plain"] + "\n"
            if "text/html" in data:
                html.append(_normalize(data["text/html"]))
    return Turn(_normalize(text), tuple(html), tuple(images), _normalize(error))


def run_node(folder: Path, cells: Sequence[str]) -> Course:
    """Run the texts as one program of node, which prints a mark between them.

    A text that fails ends a program of its own, which has the texts before it that do not fail.
    """
    turns: list[Turn] = []
    kept: list[str] = []
    for cell in cells:
        for path in folder.iterdir():
            path.unlink()
        program = _NODE + f"\nconsole.log({_MARK!r});\n".join([*kept, cell])
        run = _run_node_program(program, folder)
        if run.stderr and not run.returncode:
            run = _run_node_program(program, folder, stderr=subprocess.STDOUT)
        found = re.search(r"^(\w*Error)(?: \[\w+\])?(: .*)", run.stderr or "", re.MULTILINE)
        assert (found is None) == (run.returncode == 0), run.stderr
        text = run.stdout.split(f"{_MARK}\n")[-1]
        turns.append(Turn(_normalize(text), error=_normalize("".join(found.groups())) if found else ""))
        if not run.returncode:
            kept.append(cell)
    return Course(
        turns, {path.name: _normalize_file(path.name, path.read_bytes()) for path in folder.iterdir()}
    )


def _run_node_program(
    program: str, folder: Path, stderr: int = subprocess.PIPE
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["node", "--input-type=module", "-"],
        input=program,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=False,
    )


def _normalize(text: str) -> str:
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return text


def _normalize_file(name: str, data: bytes) -> object:
    if name.endswith((".png", ".jpg")):
        return _read_pixels(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _read_pixels(data: bytes) -> tuple[tuple[int, int], str]:
    with Image.open(io.BytesIO(data)) as image:
        pixels = image.convert("RGBA")
        return pixels.size, hashlib.sha256(pixels.tobytes()).hexdigest()
