"""Programs that install packages themselves: they fail at once, and the hint says how to get the packages."""

import pytest

from paddock import BlockingPaddock, Status

HINT = "programs cannot install packages; {}, which Paddock installs first"


@pytest.mark.parametrize(
    ("language", "code", "hint"),
    [
        ("shell", "python3 -m pip install --break-system-packages --target x six", 'run a python program with packages=["six"] (paddock exec python --package six)'),
        ("python", 'import subprocess, sys; subprocess.run([sys.executable, "-m", "pip", "install", "--target", "x", "six"], check=True)', 'run the program with packages=["six"] (paddock exec python --package six)'),
        ("shell", "npm install left-pad", 'run a node program with packages=["left-pad"] (paddock exec node --package left-pad)'),
        ("node", 'require("child_process").execSync("npm install left-pad", {stdio: "inherit"})', 'run the program with packages=["left-pad"] (paddock exec node --package left-pad)'),
    ],
)  # fmt: skip
def test_an_installer_does_not_retry_without_a_registry(workspace, language, code, hint):
    with BlockingPaddock(workspace) as p:
        outcome = p.exec(language, code)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.hint) == (Status.FAILED, HINT.format(hint))
    assert "Retrying" not in outcome.text


def test_a_session_has_the_hint_too(workspace):
    with BlockingPaddock(workspace) as p, p.session("shell") as s:
        outcome = s.run("python3 -m pip install --break-system-packages --target x six")
    assert outcome.error is not None
    assert outcome.error.hint == HINT.format(
        'open a python session with packages=["six"] (paddock repl python --package six)'
    )
    assert "Retrying" not in outcome.text
