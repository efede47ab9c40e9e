"""What programs try with paths, compilers, executables and streams."""

import asyncio
import os
import time
from pathlib import Path

import pytest

SHOW = '#include <stdio.h>\n#include "{path}"\nint main() {{ return 0; }}\n'


def test_a_compiler_reads_neither_workspace_nor_machine(programs):
    (programs.workspace / "secret.h").write_text("#error secret-of-the-workspace\n")
    for path in (programs.workspace / "secret.h", "/etc/shadow", "/proc/1/environ"):
        outcome = programs.run("c", SHOW.format(path=path))
        assert (outcome.status, outcome.program.phase) == ("failed", "compile")
        assert "secret-of-the-workspace" not in outcome.program.stderr.head
        assert "root:" not in outcome.program.stderr.head
        assert "fatal error" in outcome.program.stderr.head


def test_s10_a_link_out_of_the_workspace(programs):
    link = programs.workspace / "out"
    if not link.is_symlink():
        link.symlink_to("/")
    outcome = programs.run("shell", "pwd", cwd="out")
    assert (outcome.status, outcome.decision.reasons) == (
        "denied",
        ("Path traversal detected: target escapes repository root",),
    )


@pytest.mark.parametrize("inside", ["bin", ".", ""])
def test_an_executable_of_the_workspace_is_not_found(programs, monkeypatch, inside):
    folder = programs.workspace / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "bash").write_text("#!/bin/sh\necho shadowed\n")
    (folder / "bash").chmod(0o755)
    monkeypatch.chdir(folder)
    first = str(folder) if inside == "bin" else inside
    monkeypatch.setenv("PATH", f"{first}:{os.environ['PATH']}")
    assert programs.text("shell", "echo real") == "real\n"


OVERWRITE = """
chmod 0777 "$0" && echo chmod
chown "$(id -u)" "$0" && echo chown
touch "$0" && echo touch
( : > "$0" ) && echo emptied
( echo other > "$0" ) && echo written
rm "$0" && echo removed
"""
"""What a program does to its own file, once it runs no more: until then the kernel keeps all from writing to it."""


@pytest.mark.parametrize("access", ["none", "read-only"])
def test_the_program_cannot_change_what_the_cache_gives(programs, access):
    code = f"""
#include <stdio.h>
#include <unistd.h>
int main(int n, char **a) {{ /* {time.monotonic_ns()} */
    puts("first");
    fflush(stdout);
    return execl("/bin/sh", "sh", "-c", a[1], a[0], (char *)0);
}}
"""
    # Of root each has the one file of the cache, which belongs to none of them; of others a copy, to do with as they like.
    done = "removed\n" if os.geteuid() == 0 else "chmod\nchown\ntouch\nemptied\nwritten\nremoved\n"
    for cached in (False, True, True):
        outcome = programs.run("c", code, access=access, args=(OVERWRITE,))
        assert outcome.program is not None
        assert (outcome.program.stdout.head, outcome.program.cached) == (f"first\n{done}", cached)


def test_a_package_in_a_thousand_packages_is_refused_and_no_fault_of_ours(programs):
    code = (
        f"package {'.'.join(['d'] * 1800)}; public class Deep {{ public static void main(String[] a) {{}} }}"
    )
    outcome = programs.run("java", code)
    assert (outcome.status, outcome.program.phase) == ("failed", "compile")
    told = "Compile succeeded but its output is refused: its folders are nested more than 100 levels deep"
    assert outcome.error.message == told


def test_a_read_only_workspace_stays_as_it_is(programs):
    before = sorted(programs.workspace.iterdir())
    code = "touch made; mkdir folder; echo x > made; exit 0"
    assert programs.run("shell", code).status == "ok"
    assert sorted(programs.workspace.iterdir()) == before


def test_arguments_with_dashes_are_the_programs_own(programs):
    args = ("-c", "--version", "-", "--", "$(id)", "a\nb")
    assert programs.text("python", "import sys; print(sys.argv[1:])", args=args) == f"{list(args)}\n"
    assert programs.text("shell", 'printf "%s|" "$@"', args=args) == "-c|--version|-|--|$(id)|a\nb|"


def test_an_argument_that_is_no_text_reaches_the_program_and_its_end_is_on_the_record(programs):
    code = "import os, sys; print(os.fsencode(sys.argv[1]))"
    assert programs.text("python", code, args=("\udcff",)) == "b'\\xff'\n"
    assert programs.records("finished")[0]["status"] == "ok"


def test_a_type_whose_name_no_file_can_have_is_told_by_the_compiler(programs):
    code = f"public class {'A' * 300} {{ public static void main(String[] a) {{}} }}"
    outcome = programs.run("java", code)
    assert (outcome.status, outcome.program.phase) == ("failed", "compile")
    assert "should be declared in a file named" in outcome.program.stderr.head


def test_no_secret_leaves_in_output_or_artifact(programs):
    code = "import sys; print('ghp_' + 'a' * 36); print('AKIA' + 'B' * 16, file=sys.stderr)"
    outcome = programs.run("python", code)
    assert "a" * 20 not in outcome.program.stdout.head
    assert "B" * 16 not in outcome.program.stderr.head
    stored = b"".join(
        path.read_bytes() for path in Path(programs.settings.artifacts.directory).rglob("*") if path.is_file()
    )
    assert b"a" * 20 not in stored


SPY = """
import os, sys
own = sys.argv[1]
scratch = os.path.dirname(os.path.dirname(own))
for act in (
    lambda: open(own).read(),
    lambda: open(own, "a"),
    lambda: open(scratch + "/code.sh").read(),
    lambda: open(scratch + "/made", "w"),
    lambda: os.rename(own, own + "2"),
    lambda: os.unlink(own),
    lambda: os.listdir(scratch),
    lambda: os.listdir(os.path.dirname(scratch)),
):
    try:
        print(act())
    except (PermissionError, FileNotFoundError):
        print("refused")
"""


def test_a_program_sees_nothing_of_the_scratch_of_another(programs):
    async def go():
        said: asyncio.Queue[bytes] = asyncio.Queue()
        code = 'echo secret > "$TMPDIR/own"; echo "$TMPDIR/own"; exec sleep 3600'
        first = programs.request("shell", code)
        running = asyncio.create_task(
            programs.session.gate.execute(first, on_output=lambda _, data: said.put_nowait(data))
        )
        own = (await said.get()).decode().strip()
        second = programs.request("python", SPY, args=(own,))
        outcome = await programs.session.gate.execute(second)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return outcome

    outcome = programs.runner.run(go())
    assert (outcome.status, outcome.program.stderr.head) == ("ok", "")
    assert outcome.program.stdout.head == "refused\n" * 8
