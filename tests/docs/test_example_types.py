"""The type checker of a reader accepts what the library accepts, and finds wrong names, as an editor shows them."""

import json
import subprocess
import sys
from pathlib import Path

RIGHT = """\
from paddock import BlockingPaddock, Case, OutputQuery, Program, Settings

tests = [Case(stdin="1", expect=b"1")]
program = Program(language="python", code="1", id=7, args=["a"], files={"a": "x"}, packages=["six"], tests=tests)
settings = Settings(grants={"jit": True}, runtimes={"max_jobs": 2})
with BlockingPaddock(settings=settings) as p:
    p.exec("python", "1", network=["example.com"], packages=("six",), access="none", outputs=["*.png"])
    p.query(OutputQuery(artifact_handle="out_1", query_terms=["a"]))
    with p.session("python", network="loopback", kernel="ipython", files={"a": b"x"}) as s:
        print(s.run("1", timeout_ms=200, stdin="a").text)
"""
WRONG = """\
from paddock import BlockingPaddock, Case, Paddock, Program

with BlockingPaddock() as p:
    p.exec("python", "1", network="ful")
    p.exec("python", "1", access="read")
    p.exec("python", "1", packages="six")
    p.exec("python", "1", args="a")
    p.exec("python", "1", outputs="*.png")
    p.execute("1", mode="dry")
    p.session("python", network="ful")
    p.session("python", kernel="jupyter")
    p.session("python").run("1", timeout="1s")
Paddock().session("python", access="write")
Case(stdin=1)
Program(language="python", code="1", network="hosts")
Program(language="python", code="1", packages="six")
"""


def find_faults(folder, text):
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard", "pythonVersion": "3.11"}')
    (folder / "example.py").write_text(text)
    command = [Path(sys.executable).with_name("basedpyright"), "-p", folder, "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--outputjson"], capture_output=True, check=False, timeout=300)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return sorted({each["range"]["start"]["line"] + 1 for each in found})


def test_the_type_checker_accepts_texts_lists_and_dicts_that_the_library_reads(tmp_path):
    assert find_faults(tmp_path, RIGHT) == []


def test_the_type_checker_finds_every_wrong_name_and_a_text_for_a_list(tmp_path):
    assert find_faults(tmp_path, WRONG) == list(range(4, 17))
