"""The seccomp filters that ship as data are those that the script makes, and each starts with the right check."""

import importlib.util
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.confine import seccomp

ROOT = Path(__file__).resolve().parents[3]
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD_ARCHITECTURE = (0x20, 0, 0, 4)
"""BPF_LD | BPF_W | BPF_ABS of seccomp_data.arch (seccomp(2))."""
JUMP_IF_EQUAL, RETURN = 0x15, 0x06
KILL_PROCESS, KILL_THREAD = 0x80000000, 0
PROFILES = ["guest", "guest-jit"]


@pytest.mark.skipif(importlib.util.find_spec("pyseccomp") is None, reason="needs pyseccomp")
def test_the_filters_are_those_that_the_script_makes():
    script = ROOT / "scripts" / "seccomp_filters.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("architecture", AUDIT_ARCH)
@pytest.mark.parametrize("profile", PROFILES)
def test_each_filter_begins_with_its_architecture_and_never_kills_a_thread_alone(profile, architecture):
    program = Path(seccomp.FILTERS, f"{profile}.{architecture}.bpf").read_bytes()
    instructions = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    assert len(program) == 8 * len(instructions)
    assert len(instructions) > 10
    assert instructions[0] == LOAD_ARCHITECTURE
    code, _, elsewhere, architecture_code = instructions[1]
    assert (code, architecture_code) == (JUMP_IF_EQUAL, AUDIT_ARCH[architecture])
    assert follow(instructions, 2 + elsewhere) == (RETURN, 0, 0, KILL_PROCESS)
    verdicts = {value for code, _, _, value in instructions if code == RETURN}
    assert KILL_PROCESS in verdicts
    assert KILL_THREAD not in verdicts


def follow(instructions, at):
    """Return the instruction at `at`, or where the jumps there lead to."""
    while instructions[at][0] == 0x05:  # BPF_JA
        at += 1 + instructions[at][3]
    return instructions[at]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_filter_of_this_machine_is_loaded_by_name(profile):
    assert seccomp.read_filter(profile)[:8] == struct.pack("<HBBI", *LOAD_ARCHITECTURE)


def test_a_profile_without_a_filter_is_no_profile():
    with pytest.raises(FileNotFoundError):
        seccomp.read_filter("nobody")
