"""Values that Python programs show outside of sessions come with their outcome: figures, images and pages."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import PATIENT, run_paddock

from paddock import BlockingPaddock, Outcome
from paddock.engines.programs.shown_values import may_show

OVERRIDES: dict[str, Any] = {"runtimes": {"timeout_ms": 120_000, "python": {"environment": sys.prefix}}}
SHOWS = """\
import os, webbrowser
import matplotlib.pyplot as plt
from PIL import Image
figure, axes = plt.subplots()
axes.plot([1, 2])
figure.show()
plt.show()
plt.show()
Image.new("RGB", (9, 9)).show()
page = os.environ["TMPDIR"] + "/a.html"
with open(page, "w") as file:
    file.write("<p>x</p>")
webbrowser.open("file://" + page)
webbrowser.open("http://example.org/")
print("end")
"""


def execute(workspace: Path, code: str, **options: Any) -> Outcome:
    with BlockingPaddock(workspace, overrides={**OVERRIDES, **options.pop("overrides", {})}) as p:
        return p.exec("python", code, **options)


def test_a_program_shows_each_figure_image_and_page_once(workspace: Path) -> None:
    outcome = execute(workspace, SHOWS)
    assert outcome.program is not None
    assert (outcome.program.stdout.text, outcome.program.stderr.text) == (
        "[the page a.html, shown as HTML]\nend\n",
        "webbrowser cannot open http://example.org/: there is no browser here; show a page with "
        "display(HTML(filename=...)) of IPython.display\n",
    )
    assert [sorted(result.data) for result in outcome.results] == [
        ["image/png", "text/plain"],
        ["image/jpeg", "image/png", "text/plain"],
        ["text/html", "text/plain"],
    ]
    assert [result.text for result in outcome.results[::2]] == [
        "<Figure size 640x480 with 1 Axes>",
        "[the page a.html, shown as HTML]",
    ]
    assert (len(outcome.images), outcome.results[2].html) == (2, "<p>x</p>")


def test_the_command_line_says_where_shown_values_are(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from PIL import Image; Image.new('RGB', (1, 1)).show()"
    settings = tmp_path / "config" / "paddock"
    settings.mkdir(parents=True)
    (settings / "paddock.toml").write_text(f'[runtimes.python]\nenvironment = "{sys.prefix}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings.parent))
    done = run_paddock(workspace, "exec", "python", "-c", code, "--output-dir", "shown", *PATIENT)
    image = workspace / "shown" / "result-1.png"
    size = image.stat().st_size
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        f"result-1.png ({size} bytes): shown/result-1.png\n",
    )
    assert image.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("code", "hooked"),
    [
        ("print(1)", False),
        ("import os, sys\nfrom json import loads\nfrom os import path, environ", False),
        ("def f():\n    import os.path as p; from re import sub", False),
        ("print('import numpy')", False),
        ("import numpy", True),
        ("import os, numpy as np", True),
        ("def f():\n    from helper.x import y", True),
        ("x = 1; import numpy", True),
        ("importlib.import_module('matplotlib')", True),
        ("import webbrowser", True),
        (None, True),
    ],
)
def test_only_a_program_that_may_show_something_has_the_hook(code: str | None, hooked: bool) -> None:
    assert may_show(code) is hooked


@pytest.mark.parametrize("hooked", [False, True])
def test_a_program_sees_nothing_of_the_hook(workspace: Path, hooked: bool) -> None:
    code = (
        "import os, sys; print(os.environ['PYTHONPATH'], [each for each in sys.path if '.paddock' in each])"
    )
    granted = {"runtimes": {**OVERRIDES["runtimes"], "environment": ["PYTHONPATH"]}}
    comment = "  # PIL" if hooked else ""
    outcome = execute(workspace, code + comment, env={"PYTHONPATH": "/mine:/yours"}, overrides=granted)
    assert outcome.text == "/mine:/yours []\n"


IN_ITS_PLACE = {
    "a link": "os.symlink('/etc/passwd', shown)",
    "a pipe": "os.mkfifo(shown)",
    "a folder": "os.mkdir(shown)",
    "a file of two names": "open(shown, 'w').close(); os.link(shown, shown + '2')",
    "a frame without an end": "open(shown, 'wb').write(struct.pack('<I', 2**32 - 1) + b'{}')",
    "no JSON": "open(shown, 'wb').write(struct.pack('<I', 2) + b'{x')",
    "a deep value": "open(shown, 'wb').write(struct.pack('<I', 200_000) + b'[' * 200_000)",
    "too many bytes": "open(shown, 'wb').truncate(64 * 1024 * 1024)",
}


@pytest.mark.parametrize("what", IN_ITS_PLACE)
def test_a_forged_file_of_values_shows_nothing(workspace: Path, what: str) -> None:
    place = "import os, struct  # PIL\nshown = os.path.dirname(os.environ['TMPDIR']) + '/.paddock/shown'\n"
    outcome = execute(workspace, place + IN_ITS_PLACE[what])
    assert (outcome.status.value, outcome.text, outcome.results) == ("ok", "", ())


def test_forged_values_are_checked_as_those_of_a_session(workspace: Path) -> None:
    code = (
        "import base64, json, os, struct  # PIL\n"
        "def send(forms):\n"
        "    body = json.dumps({'display': forms}).encode()\n"
        "    with open(os.path.dirname(os.environ['TMPDIR']) + '/.paddock/shown', 'ab') as file:\n"
        "        file.write(struct.pack('<I', len(body)) + body)\n"
        "send({'text/plain': 'password=hunter2hunter2', 'text/x-evil': 'x', 'image/png': base64.b64encode(b'GIF').decode()})\n"
        "for number in range(200): send({'text/plain': str(number)})\n"
    )
    outcome = execute(workspace, code)
    assert [result.data for result in outcome.results] == [
        {"text/plain": "password=[REDACTED:secret]"},
        *({"text/plain": str(number)} for number in range(99)),
    ]
