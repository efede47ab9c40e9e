"""Hints on programs that try to install packages themselves."""

import pytest

from paddock.engines.programs.package_hints import advise_on_installation

PEP_668 = "error: externally-managed-environment"
NPM = "npm error code EAI_AGAIN"
CALLED = "subprocess.CalledProcessError: Command '['/usr/bin/python3', '-m', 'pip', 'install', 'six']' returned non-zero exit status 1."


@pytest.mark.parametrize(
    ("language", "code", "stderr", "hint"),
    [
        ("shell", "pip install numpy", PEP_668, 'run a python program with packages=["numpy"] (paddock exec python --package numpy)'),
        ("shell", "pip3 install -U --user six && echo", PEP_668, 'run a python program with packages=["six"] (paddock exec python --package six)'),
        ("shell", "uv pip install 'pandas>=2' requests[socks]", "sh: uv: not found", 'run a python program with packages=["pandas>=2", "requests[socks]"] (paddock exec python --package \'pandas>=2\' --package \'requests[socks]\')'),
        ("shell", "pip install -r requirements.txt", PEP_668, 'run a python program with packages=["NAME"] (paddock exec python --package NAME)'),
        ("python", 'run([sys.executable, "-m", "pip", "install", "numpy", "six"], check=True)', PEP_668, 'run the program with packages=["numpy", "six"] (paddock exec python --package numpy --package six)'),
        ("python", "import os; os.system('pip install numpy')", PEP_668, 'run the program with packages=["numpy"] (paddock exec python --package numpy)'),
        ("python", "", CALLED, 'run the program with packages=["six"] (paddock exec python --package six)'),
        ("python", 'os.system("npm i @a/b left-pad@1")', NPM, 'run a node program with packages=["@a/b", "left-pad@1"] (paddock exec node --package @a/b --package left-pad@1)'),
        ("python", "%pip install emoji", '  File "program.py", line 1\n    %pip install emoji\n    ^\nSyntaxError: invalid syntax', 'run the program with packages=["emoji"] (paddock exec python --package emoji)'),
        ("node", 'execSync("npm install left-pad", {stdio: "inherit"})', NPM, 'run the program with packages=["left-pad"] (paddock exec node --package left-pad)'),
        ("typescript", "execSync('npm install left-pad')", NPM, 'run the program with packages=["left-pad"] (paddock exec typescript --package left-pad)'),
        ("shell", "yarn add left-pad", "code.sh: line 1: yarn: command not found", 'run a node program with packages=["left-pad"] (paddock exec node --package left-pad)'),
    ],
)  # fmt: skip
def test_a_failed_installation_names_what_gives_the_packages(language, code, stderr, hint):
    assert advise_on_installation(code, stderr, language, in_session=False) == (
        f"programs cannot install packages; {hint}, which Paddock installs first"
    )


def test_a_session_is_opened_with_its_packages():
    assert advise_on_installation("pip install six", PEP_668, "python", in_session=True) == (
        'programs cannot install packages; open a session with packages=["six"] '
        "(paddock repl python --package six), which Paddock installs first"
    )
    assert advise_on_installation("npm i six", NPM, "shell", in_session=True) == (
        'programs cannot install packages; open a node session with packages=["six"] '
        "(paddock repl node --package six), which Paddock installs first"
    )


@pytest.mark.parametrize(
    ("code", "stderr"),
    [
        ("# pip install numpy\nraise SystemExit('no')", "no"),
        ("raise SystemExit('pip install numpy')", "pip install numpy"),
        ("npm test", "npm error Missing script: test"),
        ("pip " * 300_000, PEP_668),
        ("", "pip install " * 300_000 + PEP_668[:-1]),
    ],
)
def test_other_failures_have_no_such_hint(code, stderr):
    assert advise_on_installation(code, stderr, "shell", in_session=False) == ""
