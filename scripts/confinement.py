"""Write docs/confinement.md, the table of attacks and tiers, from tests/escape/processes.

`python scripts/confinement.py` writes it; with `--check` it compares instead, and exits with 1 on a difference.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "confinement.md"
COLUMNS = (("namespaces",), ("landlock as root", "landlock"), ("landlock",))
"""What stands in an attack's file for each column; the first of them that is there."""

HEAD = """\
# What confinement stops

<!-- Written by scripts/confinement.py from tests/escape/processes; `make check` compares. Change the attacks. -->

Every program that Paddock starts as a process runs in one of three tiers:

| tier | what it is | where it works |
|---|---|---|
| `namespaces` | files, processes and network of its own, and all of `landlock` | user namespaces, bubblewrap |
| `landlock` | rules for files, a filter of system calls, no capabilities | Linux 5.13 or later, containers too |
| `unconfined` | neither; limits still hold, and nothing outlives the program | wherever a settings file asks for it |

`paddock doctor` tries the first two out by attacking from within, and says what is missing and which command
adds it. The strongest that held is used. When that is less than `sandbox.minimum_tier`, nothing runs.

## Who a program is, and what it may touch

* It reads the system (`/usr` and what libraries need of `/etc`), its toolchain, and the workspace when that is
  granted.
* It writes to a scratch directory, which is gone after it, and to the workspace when that is granted for
  writing.
* It has no network unless that is granted, and never unix sockets.
* When Paddock runs as root, programs run as user 65531, or as the user of `sandbox.job_user`. In the tier
  `namespaces` a program with a workspace runs as root without any capability, so that it gets at the user's files.
  In the tier `landlock` it does not: it reads what everybody may read, and a workspace is granted for writing only
  where that user may write. `sandbox.job_user = "root"` changes that.
* Before Linux 6.12 the tier `landlock` cannot keep processes of the same user from signalling each other. Where
  Paddock's own processes are among them, the tier is not used.
* Paddock's own directories (settings, record, stored output, vault, caches) are no part of a workspace, also where that
  is the home that holds them. In `namespaces` each is an empty directory. In `landlock` they can be listed and not
  read, and such a workspace cannot be granted for writing. Where a setting places a file of Paddock's in a workspace
  (`servers.trust`, `.config`, `.registry`), a program that may write there does not start, and where that is
  `sdk.webhooks` or `.signals`, none that may read there does.
* Where Paddock itself is installed below a writable workspace, as in the virtual environment of a project, programs can
  read and not write; in `landlock` none starts that may write there.
* In a writable workspace, `.git/hooks`, `.mcp.json`, `.vscode`, `.cursor`, `.mentu` and the like are protected: by
  mounts where they exist and the tier is `namespaces`, else they are put back after the run and reported: content,
  owner, mode, ACL and attributes, not times. A run after which one could not be put back, because it was a socket or
  the disk is full, is an error that names it. They may hold 64 MiB in all. `sandbox.protected_paths` can refuse the
  run.
  Where one is a link, that is protected, and what it leads to is not: `refuse` refuses such a workspace.
* That holds for the workspace itself, not for folders below it: a program that may write there can make another
  repository in one, with hooks and settings that `git` obeys when it is called there, and from above, too, when the
  program has made it a submodule (`git status --ignore-submodules=all` does not look into it). What `.git/modules` and
  `.git/worktrees` hold is not protected either: settings of submodules and of linked worktrees, wherever those are.
  It holds for all programs of one Paddock: when two write to the same workspace at the same time, what a program
  leaves for a moment can be taken by the other for the user's own, and put back.
* What is put back is what the program wrote until then: an editor, an agent, or another Paddock that begins meanwhile
  can read it. A session goes by what the servers files held before its first program. Servers that are started in a
  writable workspace find what programs left there, for `npx`, `uv` and `python -m` look there first: give their
  entries a `cwd` elsewhere.
* A file of a writable workspace that has another name outside of it (a hard link) is written to by both names.
* A script tool does not start when a link has taken the place of its folder since it was found. What is in the folder
  is as trustworthy as who may write there: programs that may write to a workspace, beside its tools, among them.
* A result is due a quarter of a second after the wall time at the latest, and no process of the program is left
  then.

## What the tiers do not have in common

| | `namespaces` | `landlock` |
|---|---|---|
| files that are not granted | are not there | cannot be read, written, listed or made; names can be tried out |
| of them, what the program's user owns | is not there | mode, times and attributes can be changed (as root: none) |
| of them, what the program's user may read | is not there | its use can be watched (inotify) |
| protected paths | cannot be changed where they are, else are put back | are put back |
| other processes | are not there | cannot be signalled, traced, slowed down or looked into |
| `/tmp`, `/dev/shm` | directories of each program's own, in memory | cannot be written to; `TMPDIR` is in scratch |
| `/proc` | its own | its own entry, which tells of mounts and connections of the machine, and a few facts about it |
| network, when none is granted | an empty one, and no sockets | no sockets |
| the last process | dies with the first, by the kernel | is found and killed by the warden |

With `sandbox.job_user = "root"` a program with a workspace is root in the tier `landlock`, without any capability. Root
owns the machine's files, and the program can change their modes: set it only for code that you would run as root.

## What keeps the limits

| limit | with a control group of ours (cgroup v2) | without one |
|---|---|---|
| memory | `memory.max` and no swap; the kernel ends the whole job at once | resident memory is sampled (1) |
| processes | `pids.max`, 256 tasks above the limit, and the sampled count | `RLIMIT_NPROC`, and the sampled count (2) |
| CPU time, scratch | sampled | sampled |
| the end | `cgroup.kill` first, then as without | everything below the job's warden is stopped and killed |

(1) Each socket and pipe counts as the most that it can hold, all of them as far as the machine has less memory to spare
than before. Memory files and removed files of which nobody can be sure (mapped and not open, on their way through a
socket, or hidden by their process) count where the machine itself holds so much more than before. Tables of pages,
mappings, locks on files and what is watched count once the kernel's own memory has grown by a quarter of the limit,
also with a control group, which does not count all of it. (2) Of processes, and of threads, of which there may be
256 more; `RLIMIT_NPROC` does not hold for a program that is root.

Paddock uses a control group where systemd delegates one (`systemd-run --user --scope -p Delegate=yes paddock ...`),
where a container may write to its own, and as root of a machine that systemd does not manage. A program that takes
too much shows first that the limit holds, or memory goes on being sampled; `paddock doctor` says which. What a killed
Paddock leaves behind of groups, the next one ends and removes.

## What has not been tried out

* The tests run where the hierarchies of cgroup v1 hold `memory`: there they cover the choice of a group, and with real
  groups their way in, their end and their removal. `memory.max`, `pids.max`, and groups delegated to a user by the
  rights of their files were exercised by hand, on Linux 6.1 in an emulated machine; delegation by systemd was not.
* On aarch64 nothing has run. The tests interpret its filters, call by call, as they do those of x86-64; that its
  kernel, Landlock and bubblewrap behave the same is expected, and `paddock doctor` finds out.

## Attacks

`closed` means that the attack failed, **open** that it worked. Each line is a program below
`tests/escape/processes/attacks`, which the tests run with a writable workspace in these places:

| place | how the tests make it |
|---|---|
| as root, and as an ordinary user | as started, and by `setuid` to a number that nobody has |
| without user namespaces | in a user namespace whose `user.max_user_namespaces` is 0 (`landlock` alone) |
| in a container | under a filter with the denials of Docker's default profile (`landlock` alone) |
| unconfined, as an ordinary user | the control: there, an attack that can succeed has to |

In the tier `landlock`, root runs programs as a user of their own, who owns nothing else. Two things are open there:
names can be tried out (`stat` tells that a file is there, its size and its owner), and folders that everybody may
read can be watched. Landlock has no rule for either.

| attack | namespaces | landlock, as root | landlock, as another user |
|---|---|---|---|
"""


def table() -> str:
    """Return the rows, one for each attack."""
    rows: list[str] = []
    for path in sorted((ROOT / "tests/escape/processes/attacks").glob("*.py")):
        text = path.read_text()
        title = text.split("\n", 1)[0].strip('"').removesuffix(".")
        told: dict[str, str] = dict(re.findall(r"^([a-z ]+): (.+)$", text, re.MULTILINE))
        states = [next((told[name] for name in names if name in told), "?") for names in COLUMNS]
        rows.append(f"| {title} | " + " | ".join("**open**" if s == "open" else s for s in states) + " |\n")
    return "".join(rows)


def main() -> int:
    """Write or check the page."""
    page = HEAD + table()
    if "--check" not in sys.argv:
        TARGET.write_text(page)
    elif not TARGET.exists() or TARGET.read_text() != page:
        print(
            "docs/confinement.md differs from tests/escape/processes/attacks: run python scripts/confinement.py",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
