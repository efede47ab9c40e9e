"""The page "In a notebook": its cells run in a real kernel of Jupyter, and show what the page says."""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from tests.integration.engines.sessions.notebooks import write_kernels
from tests.support.processes import PATIENCE_S

PAGE = Path(__file__).resolve().parents[4] / "docs/notebook.md"
SHOWN = {
    "p.execute(": r"<strong>ok</strong>.*<pre>\[\n  2,\n  4,\n  6\n\]</pre>$",
    "p.exec(": r"<strong>ok</strong>.*<pre>42\n</pre>$",
    "s = p.session(": r"<strong>ok</strong>[^\n]*</div>$",
    's.run("rows[0]': r"<pre>354500.0</pre>$",
    's.run("""': r'<iframe sandbox="" srcdoc=".*&lt;td&gt;709,000',
}


def test_the_cells_of_the_page(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "ipython").mkdir()
    monkeypatch.setenv("IPYTHONDIR", str(workspace / "ipython"))
    cells = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    specs = KernelSpecManager(
        kernel_dirs=[str(write_kernels(tmp_path / "kernels", Path(sys.executable)))],
        ensure_native_kernel=False,
    )
    client = NotebookClient(
        book,
        km=AsyncKernelManager(kernel_name="reference-python", kernel_spec_manager=specs),
        timeout=int(10 * PATIENCE_S),
        resources={"metadata": {"path": str(workspace)}},
    )
    client.owns_km = True  # otherwise nobody ends the kernel
    client.execute(env=dict(os.environ))
    shown = {
        cell["source"]: output["data"]["text/html"]
        for cell in book.cells
        for output in cell["outputs"]
        if output["output_type"] == "execute_result" and "text/html" in output["data"]
    }
    assert [source for source in cells if source.startswith(tuple(SHOWN))] == [*shown]
    for source, html in shown.items():
        [pattern] = [SHOWN[start] for start in SHOWN if source.startswith(start)]
        assert re.search(pattern, html, re.DOTALL), html
