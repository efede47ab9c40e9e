"""Write docs/confinement.md, the table of attacks and tiers, from tests/escape/processes.

`python scripts/confinement.py` writes it; with `--check` it compares instead, and exits with 1 on a difference.
"""

import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from paddock.confinement.sandbox.child.protected_names import PROTECTED
from paddock.confinement.sandbox.tiers import OWNED_FILES_RISK, RESIDUAL_RISKS, SIGNAL_RISK

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "confinement.md"
COLUMNS = {
    "`namespaces`": ("namespaces",),
    "`namespaces`, network `loopback` or `hosts`": ("namespaces with loopback", "namespaces"),
    "`landlock`, program is user 65531 (Paddock is root)": ("landlock as root", "landlock"),
    "`landlock`, program has Paddock's own user": ("landlock",),
}
"""The heading of each column, and what stands in an attack's file for it; the first of them that is there."""

HEAD = """\
# What confinement stops

<!-- Written by scripts/confinement.py from tests/escape/processes; `make check` compares. Change the attacks. -->

Every program that Paddock starts as a process runs in one of three tiers:

| tier | mechanisms | where it works |
|---|---|---|
| `namespaces` | private files, processes and network; what the kernel has of `landlock` | user namespaces, bubblewrap |
| `landlock` | Landlock rules for files, a seccomp filter, no capabilities | Linux 6.12 (as root 6.2), containers |
| `unconfined` | none; limits still apply, and no process outlives the program | wherever a settings file asks for it |

The tier `landlock` is named after its main mechanism, Landlock. The tier `namespaces` uses Landlock, too, where the
kernel has it.

On kernels without Landlock (gVisor, old kernels, kernels with it switched off) `namespaces` confines files by its
mounts alone, and JavaScript runs in an empty root. `sandbox.require = ["landlock"]` refuses that.

`paddock doctor` attacks the first two tiers from inside. It reports what is missing and the command that
installs it. Paddock uses the strongest tier that held. If that tier is weaker than `sandbox.minimum_tier`,
no program in another language runs.

## User and access of a program

* **Reading.** A program reads the system (`/usr` and what libraries need of `/etc`), its toolchain, and the
  workspace if that is granted, except [hidden files](#hidden-files).
* **Writing.** It writes to a scratch directory, which Paddock deletes after it, and to the workspace if write
  access is granted.
* **Network.** It has no network without a grant. With `loopback` or `hosts` each program has its own network
  with nothing but `127.0.0.1` and `::1`. It can listen and connect there. No other program and nothing of the
  machine is in it. Four attacks of the table are therefore open with these grants: they use sockets, and reach
  only the program itself.
* **Unix sockets.** With `loopback` or `hosts` a program can bind and connect Unix sockets below `$TMPDIR`, `/tmp`
  and `/dev/shm`, and with abstract names. Their type must be stream or sequential packet. Sockets of the workspace
  and of the machine cannot be reached. With any other grant there are only pairs (`socketpair`).
* **User.** If Paddock runs as root, programs run as user 65531, or as the user of `sandbox.job_user`. In the
  tier `namespaces` a program with a workspace runs as root without any capability, so that it can access the
  user's files. In the tier `landlock` it does not. It reads what all users may read, and write access to a
  workspace requires that this user may write there. `sandbox.job_user = "root"` changes that.
* **Signals.** Before Linux 6.12 the tier `landlock` cannot stop processes of the same user from signalling
  each other. If Paddock's own processes are among them, the tier is not used.
* **Paddock's own directories** (settings, record, stored output, vault, caches) are never part of a
  workspace, even if the workspace is the home directory that contains them. In `namespaces` each of them is
  an empty directory. In `landlock` they can be listed but not read, and write access to such a workspace
  cannot be granted.
* **Paddock's own files in a workspace.** Settings such as `servers.trust`, `servers.config` and
  `servers.registry` can place files there. A program that may write to that workspace does not start. With
  `sdk.webhooks` or `sdk.signals`, a program that may read it does not start either.
* **Paddock's installation** may be below a writable workspace, as in the virtual environment of a project.
  Programs can read but not write it. In `landlock`, a program that could write to it does not start.
* **Protected paths.** In a writable workspace the paths of [one list](#protected-paths) are protected: names,
  patterns, and what git's configuration names. In the tier `namespaces`, mounts protect those that exist, except
  matches of `**/` in its folders. In all other cases Paddock restores them after the run and reports the change. It
  restores content, owner, mode, ACL and attributes, but not times. If a path cannot be restored, because it was
  a socket or the disk is full, the run ends with an error that names it. Protected paths may contain 64 MiB in
  total. `sandbox.protected_paths` can refuse the run instead. If a protected path is a link, the link is
  protected, and its target if it is in the workspace; `refuse` refuses such a workspace.
* **Other folders below the workspace** are not protected. A program that may write there can create another
  repository with hooks and settings. `git` obeys these if it is called there, and also from above if the
  program made the repository a submodule (`git status --ignore-submodules=all` does not look into it).
* **Concurrent writers.** Protection covers all programs of one Paddock. Two programs may write to the same
  workspace at the same time. Paddock can then take a temporary change of one for the user's own file, and
  restore it after the other's run.
* **Before Paddock restores a path**, an editor, an agent, or another Paddock that starts can read what the
  program wrote. A session uses the servers files as they were before its first program. Servers that start in
  a writable workspace find the files of programs there, because `npx`, `uv` and `python -m` look there first.
  Give their entries a `cwd` elsewhere.
* **Hard links.** If a file of a writable workspace has a second name outside, a write changes both.
* **Script tools.** A script tool does not start if a link has replaced its directory since it was found.
  Every program that may write to the directory of a tool can change the tool. This includes programs with
  write access to the workspace that contains it.
* **End.** A result is due within a quarter of a second after the wall time, and no process of the program is
  left then. If the kernel has not ended a process by then, the result counts it in `survivors`, and Paddock
  continues to kill it.

## Hidden files

A workspace often contains passwords and keys. No program reads them there: programs in a language, sessions,
script tools, commands of the SDK, and servers with `confine`. They are hidden in the tiers `namespaces` and
`landlock`. Opening one fails with "permission denied", and the hint of the outcome names it.

* **What is hidden** is the list [`workspace.hide`](configuration.md): files whose purpose is to hold secrets.
  Examples are `.env`, `.env.production`, `.netrc`, `.pgpass`, `.ssh`, `.aws/credentials` and `id_ed25519`. A
  `.pem` or `.key` is hidden only if it holds a private key, so certificates stay visible. `.npmrc` is hidden
  only if it holds a token.
* **What is not hidden**: `.env.example` and other templates, and what `.git`, `.venv`, `site-packages` and
  `node_modules` contain. A file that may hold a secret beside other content, such as `terraform.tfstate` or
  `.git/config`, is not hidden either. Add it to `workspace.hide`.
* **Where.** Paddock searches the whole workspace at each start, also in a deep folder. It follows a link of
  such a name. It finds other names of the same file (hard links), also in folders that are shown. In a
  toolchain, or in a path that you grant by itself, nothing is hidden.
* **Changes.** A program with write access cannot change, replace, move or remove a hidden file, and cannot
  rename a folder above it. In `namespaces` such a folder is a mount: moving a file out of it takes a copy
  (`EXDEV`). In `landlock` a program cannot make, rename or remove anything in a folder that contains a hidden
  file, at any depth. It can change files that exist, and do everything in the other folders.
* **After the start.** A file that you make, rename or replace while a program runs is not hidden from that
  program. A session or a server keeps what was hidden when it started. The next program gets the new state.
* **Other copies.** A file that was committed is still in `.git`, and `git show HEAD:.env` prints it. A secret
  in an environment variable, a log or a build result is not hidden.
* **Bound.** A search takes about half a second in a workspace with 200,000 files, and a tenth of that when a
  server searches it again. With more than 1,000,000 names (a folder counts as eight), or more than 4,096 hidden
  files, no program with this workspace starts. Name folders that need not be searched in `workspace.show`.

A person can show a file for one run:

```sh
paddock exec python ./deploy.py --show .env
```

The settings of the user can show files and folders for all runs. Those of a workspace can only hide more:

```toml
[workspace]
hide = ["terraform.tfstate", "secrets/", "/deploy/prod.yaml"]
show = [".env.test", "data/"]
```

`paddock policy explain python` lists what is hidden in a workspace. `paddock doctor` proves that a hidden file
cannot be read.

## Protected paths

A file is protected if a tool runs or obeys it only because a person works in its folder. The person may have opened
the folder, or started a shell, an editor, an agent or a debugger there. Sources, tests and build files, which people
run on purpose, are the program's own business. Many entries matter only where the workspace is a home directory. There
a folder that may be large is listed by its settings alone.

Protection is a list, not a promise about everything that could run later. A program with the access `read-only`
changes nothing at all.

@PROTECTED@

A name without `**/` is protected at the top of the workspace, not in its folders. A rebase that stops inside of a
program cannot be continued after it, because its list of steps is removed: use `git rebase --abort`.

**What git's configuration names.** Before the run, Paddock reads git's configuration: of the repository, the
user and the system, with the files that they include. It does not start git. It protects the folder of
`core.hooksPath` and of `init.templateDir`, included files, and files of the workspace in commands:
`core.sshCommand`, filters, drivers, credential helpers, aliases and similar keys. It does the same for
submodules of `.gitmodules` and for linked work trees in the workspace, also if their folder is deeper. Files
outside of the workspace are not protected, because the program cannot change them. A file outside that a
repository's own configuration includes is not read. A configuration of more than 1 MiB, or 2,000 files, is
refused.

**Settings.** `sandbox.protected` adds names and patterns. `sandbox.unprotected` in the user's settings takes
away entries of this list.

```toml
[sandbox]
protected = ["ci/deploy.sh", ".github/workflows/**", "**/.vscode"]
unprotected = [".pre-commit-config.yaml"]
```

**`**/`** stands for the workspace and the folders of two levels below it, except in `.git` and `node_modules`. A
file in a deeper folder is not found. Looking takes about 10 microseconds for a folder. A workspace with more than
150,000 names there, or about 9,000 folders, is refused for writing. To lift this, take away the three
patterns of that kind with `sandbox.unprotected`.

## Differences between the tiers

| | `namespaces` | `landlock` |
|---|---|---|
| files without a grant | do not exist | cannot be read, written, listed or created; name, size and owner can be seen |
| files without a grant that the program's user owns | do not exist | cannot be changed (supervised system calls) |
| files without a grant that the program's user may read | do not exist | cannot be watched (supervised system calls) |
| protected paths | cannot be changed if they exist, otherwise are restored | are restored |
| hidden files | cannot be read, changed or moved | the same; nothing can be made beside them |
| other processes | do not exist | cannot be traced, slowed down or inspected; nor signalled, from Linux 6.12 on |
| `/tmp`, `/dev/shm` | private directories of each program, in memory | cannot be written to; `TMPDIR` is in scratch |
| `/proc` | private | its own entry, with mounts and connections of the machine, and a few facts about it |
| network, without a grant | an empty network namespace, and no sockets | no sockets |
| network `loopback` and `hosts` | a separate network namespace for each program | refused |
| the last process | is killed by the kernel when the first one ends | is found and killed by the supervisor |

With `sandbox.job_user = "root"` a program with a workspace is root in the tier `landlock`, without any
capability.

### What `landlock` leaves open

Besides the differences in the table above, some risks are left. `paddock doctor`, and the outcome of each program, list
those that hold on the machine. Only the tier `landlock` has these:

@LANDLOCK@
@OWNED@
* Before Linux 6.12: @SIGNALS@.
* In a [frozen session](#frozen-sessions), a process that may not be traced can continue itself. Paddock notices that
  late, and ends the session.

The tier `namespaces` has these, too:

@BOTH@

Which of them hold depends on the machine:

* User 65531 owns no files, unless an account of the machine has that number. Therefore it cannot change any.
* Where [supervised calls](#supervised-system-calls) hold, programs with Paddock's own user cannot change such files.
* With a control group, the kernel limits memory and processes at once, and counts the memory of pipes, sockets and
  mappings.

### Supervised system calls

Landlock has no rule for the mode, owner, times and attributes of a file, or for watching it. Where a program's
user may own other files, Paddock therefore does these calls itself: `chmod`, `chown`, `utime`, `setxattr`,
`removexattr` and their relatives, and `inotify_add_watch`. The kernel holds the call (seccomp user
notification, Linux 5.6). A broker process with the program's user and no capability opens the named file below
a directory that the program may write to, and acts on that. For a watch, the program need only be able to read
the file. All other files are refused with `EPERM`. If the broker ends, the calls fail with `ENOSYS`.

* For root's programs that run as user 65531, Paddock does `inotify_add_watch` alone, and calls that give a file the bit
  of its group. That user owns nothing else.
* Files that were removed, and memory files, can be changed. Pipes, sockets and terminals cannot.
* Paths that lead through `/proc` to the files of a process are refused, except `/proc/self/fd/N`.
* Watches need `pidfd_getfd(2)`. Docker's default profile denies it, and so does Yama for an ordinary user
  (`kernel.yama.ptrace_scope` 1). No file can be watched there, in the workspace either.
* A call takes a tenth of a millisecond. `paddock doctor` reports whether supervised calls hold on the machine.
  Where they do not, a program can change all files that its user owns. With `sandbox.job_user = "root"` it can
  change all files of root. `doctor` and each result name that.

### Set-user-id and set-group-id files

No program leaves a file that runs with the powers of the program's user or group: the call fails with
`EPERM`. Folders may have the bit of a group, which hands the group on to what is made in them. A filter cannot tell a
folder from a file. Therefore a broker process does these calls in the tier `landlock`, and in the tier `namespaces`
for programs that may write outside of their scratch. Where the kernel allows no broker, they fail with `ENOSYS`.

### Locks on files

A program cannot take a lease or a delegation (`F_SETLEASE`, `F_SETDELEG`), for which other programs wait when they open
the file or change the folder. It can take locks, of which others notice only if they ask for a lock on the same file.

* A lock on a file that the program may write can last as long as the program, or its session. Git, npm and Cargo
  depend on such locks.
* A lock of `flock`, or of an open file description, on a file that the program may only read ends when
  its session is frozen. Paddock takes it away. It cannot do so in a container with Docker's default profile, which
  denies `pidfd_getfd(2)`, nor before Linux 6.9 if the first thread of a process has ended. It does not find a
  descriptor that is on its way through a socket.
* A read lock of a process (`F_SETLK`), as SQLite and DuckDB take on a database that they only read, lasts until the
  program releases it, or its session ends. Meanwhile others can read the file, and cannot lock it for writing.

### Frozen sessions

Nothing of a session runs between two executions. Paddock traces each of its threads (ptrace(2)) and stops it. It stops
the worker of a JavaScript session, which cannot start a timer of the kernel, with `SIGSTOP`. No timer
and no signal of the program continues it. A system call that a thread has begun is finished.

In the tier `landlock`, an ordinary user may not trace a process that hides from its user (`PR_SET_DUMPABLE`), and no
process where Yama forbids it (`kernel.yama.ptrace_scope` 2 and 3). Paddock stops such a process with `SIGSTOP`, which
a timer of the program can undo. It then checks the processes, the memory and the disk about once a second. A session
ends if one of its processes runs then, if they have used 50 ms of CPU time since it was stopped, or at a limit.

### Unix sockets with a path

A Unix socket with a path belongs to no network namespace. Through a granted directory a program could otherwise
connect to an editor, a database or `docker.sock`. With `loopback` or `hosts` the kernel therefore holds each
`connect` and `bind`, and a broker process does it. The root of the broker holds only the private directories of
the program, so that no path leads elsewhere. If the broker ends, the calls fail with `ENOSYS`.

* A path outside of the private directories fails with `EPERM`. Paths through `/proc` do, too.
* `SO_PEERCRED` of an accepted connection has the process number 0. User and group are right.
* At most 256 connections of a program can wait for a server at once. Further blocking ones fail with `EAGAIN`.
* A signal other than `SIGKILL` does not interrupt a `connect` that waits.
* A call takes a tenth of a millisecond, also for `127.0.0.1`.

## Enforcement of limits

| limit | with a control group (cgroup v2) | without one |
|---|---|---|
| memory | `memory.max` and no swap; the kernel kills the whole job at once | resident memory is polled (1) |
| processors | equal shares, with the controller `cpu` | lower priorities for many threads or sessions (3) |
| processes | `pids.max`, 256 tasks above the limit, and the polled count | `RLIMIT_NPROC`, and the polled count (2) |
| CPU time, scratch | polled | polled |
| the end | the process group, `cgroup.kill`, then as without a group | all below the supervisor is stopped and killed |

(1) Memory files, deleted files and page tables count, too. A program can hide a memory file or a deleted file: mapped
but closed, inside a socket, or in a process that hides from its user. Paddock then guesses. It counts at most as
much as the use of the whole machine has grown since its lowest value during the run. If another program releases
memory within the same few milliseconds, as much of it can stay hidden. What the kernel keeps for a program elsewhere
is not counted without a control group: what lies in sockets and pipes, and mappings. File locks are counted by
neither.

(2) Processes are counted, and threads, of which 256 more are allowed. `RLIMIT_NPROC` does not limit a program
that is root.

(3) The priorities follow the number of threads and of sessions that want a processor, measured every 100 ms. Linux
can share processors among sessions (`kernel.sched_autogroup_enabled`). There, sessions that live shorter than that
take more than their share. As root without CAP_SYS_NICE, as in most containers, Paddock cannot change priorities of
programs in the tier `landlock`. Programs that lose their time that way are not judged (`unavailable`).

Paddock uses a control group in three cases: systemd delegates one (`systemd-run --user --scope -p
Delegate=yes paddock ...`), a container may write to its own, or Paddock is root on a machine without systemd.
A test program that exceeds the limit proves first that the limit holds. Otherwise memory is polled; `paddock
doctor` reports which. The next start ends and removes the groups that a killed Paddock left behind.

## Not tested

* The test machines have cgroup v1 hierarchies with `memory`. There the tests cover the choice of a group and,
  with real groups, joining, ending and removing it. `memory.max`, `pids.max`, and groups that file
  permissions delegate to a user were tested by hand, on Linux 6.1 in an emulated machine. Delegation by
  systemd was not tested.
* gVisor: Debian's `runsc` of December 2022 lacks what bubblewrap and the supervisors need. Newer releases were not
  tried.
* Nothing has run on aarch64. The tests interpret its seccomp filters call by call, as they do for x86-64. Its
  kernel, Landlock and bubblewrap are expected to behave the same. `paddock doctor` checks that.

## Attacks

`closed` means that the attack failed, **open** means that it worked. Each line is a program below
`tests/escape/processes/attacks`, which the tests run with a writable workspace in these places:

| place | how the tests make it |
|---|---|
| Paddock is root, and an ordinary user | as started, and by `setuid` to an unused user id |
| Paddock is root, with programs that stay root | `sandbox.job_user` (`landlock` alone, in the last column) |
| without supervised calls | the control: the attacks on metadata must succeed (`landlock` alone, not in the table) |
| without user namespaces | in a user namespace whose `user.max_user_namespaces` is 0 (`landlock` alone) |
| in a container | under a filter with the denials of Docker's default profile (`landlock` alone) |
| without Landlock | as root, where the calls of Landlock answer ENOSYS (`namespaces` alone) |
| unconfined, as an ordinary user | the control: an attack that can succeed must succeed here |

In the tier `landlock`, a root Paddock runs programs as user 65531, which owns nothing else. Landlock has no rule
for the attacks that are **open** only there. [What `landlock` leaves open](#what-landlock-leaves-open) lists them,
and what the attacks below do not try, such as the mounts and connections in `/proc`.

The tests use no control group. Three attacks on the kernel's own memory are therefore **open** in every tier:
sockets, mappings and file locks. Give Paddock a control group on a machine where unreviewed programs must not
be able to exhaust the memory. It bounds the first two.

"""


def render_protected_paths() -> str:
    """Return the table of protected names and patterns."""
    rows = [
        f"| {tools} | {' '.join(f'`{entry}`' for entry in entries)} |" for tools, entries in PROTECTED.items()
    ]
    return "\n".join(("| tools | names and patterns |", "|---|---|", *rows))


def render_risks(risks: Iterable[str]) -> str:
    """Return a list of what a tier does not close."""
    lines = (f"{risk[0].upper()}{risk[1:]}." for risk in risks)
    return "\n".join(textwrap.fill(line, 112, initial_indent="* ", subsequent_indent="  ") for line in lines)


def table() -> str:
    """Return the headings, and a row for each attack."""
    rows = [f"| attack | {' | '.join(COLUMNS)} |\n|---{'|---' * len(COLUMNS)}|\n"]
    for path in sorted((ROOT / "tests/escape/processes/attacks").glob("*.py")):
        text = path.read_text()
        title = text.split("\n", 1)[0].strip('"').removesuffix(".")
        told: dict[str, str] = dict(re.findall(r"^([a-z ]+): (.+)$", text, re.MULTILINE))
        states = [next((told[name] for name in names if name in told), "?") for names in COLUMNS.values()]
        rows.append(f"| {title} | " + " | ".join("**open**" if s == "open" else s for s in states) + " |\n")
    return "".join(rows)


def main() -> int:
    """Write or check the page."""
    page = HEAD.replace("@PROTECTED@", render_protected_paths())
    separate = {*RESIDUAL_RISKS["namespaces"], OWNED_FILES_RISK}
    page = page.replace("@BOTH@", render_risks(RESIDUAL_RISKS["namespaces"]))
    page = page.replace(
        "@LANDLOCK@", render_risks(r for r in RESIDUAL_RISKS["landlock"] if r not in separate)
    )
    owned = f"without [supervised calls](#supervised-system-calls): {OWNED_FILES_RISK}"
    page = page.replace("@OWNED@", render_risks([owned]))
    page = page.replace("@SIGNALS@", SIGNAL_RISK) + table()
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
