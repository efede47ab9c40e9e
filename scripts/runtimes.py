"""Write docs/runtimes.md, the table of languages and of how each is run, from the recipes.

`python scripts/runtimes.py` writes it; with `--check` it compares instead, and exits with 1 on a difference.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from paddock.runtimes.recipe import Recipe, RecipeVariant, recipes

TARGET = Path(__file__).resolve().parent.parent / "docs" / "runtimes.md"

HEAD = """\
# Runtimes

<!-- Written by scripts/runtimes.py from src/paddock/runtimes/recipes.toml; `make check` compares.
Change the recipes. -->

Paddock brings no language along: it runs programs with the toolchains of the machine. `paddock runtimes` says which
it found, `paddock runtimes --check` runs a program in each of them, confined as any other, and `paddock runtimes
install` prints the commands that get one, or runs them with `--yes`.

## What is used

Of the executables in the table, from top to bottom, the first that is on PATH; a request may name another one of its
runtime. Three things are passed over: directories of PATH that are not absolute; what lies in the workspace,
because a program may have put it there; and what the user of programs cannot reach. Paddock running as root runs
programs as another user unless they work in root's files, so a toolchain in root's home (rustup, pyenv, nvm) is not
for them: install one for the whole machine.

The stand-ins of version managers are asked for the program behind them. A toolchain outside of the system's
directories is granted to programs for reading, as narrow as it can be told; one that would open a home directory is
refused.

`paddock runtimes` and `paddock doctor` name the executable that `paddock exec` would use in the workspace. Where
`--access none` changes it, because programs then run as another user, `paddock runtimes` names that one, too.

## Python environments

The packages of an activated environment are there for programs where its `bin` is first on PATH and outside of the
workspace. Another one is named in the user's settings, made by venv, uv, virtualenv or conda:

```toml
[runtimes.python]
environment = "~/.venvs/data"
```

Programs read all of it and change nothing of it. It is never replaced by another one: where it cannot be used, Python
programs are `unavailable`, and the error says why.

The workspace's own environment (the activated one, else `.venv`) is passed over, because a program may have changed it.
`workspace_environment = true` under `[runtimes]` in the user's settings lets programs use it. Then the interpreter must
be that of an installation outside of the workspace, whose `bin` and `lib` programs may read; `.venv` and its `bin` are
directories, not links. With `workspace-write` it stays as it is in the tier `namespaces`. The tier `landlock` cannot
keep it so, and it is passed over there. When a module is missing, the hint says which interpreter ran the program,
which environment was passed over, and why.

A `.pth` file of an environment, as `pip install -e` writes it, grants nothing: of the directories that it names a
program reads those in the workspace. Script tools use the first interpreter on PATH.

## Programs in two styles

* PHP: `<?php` is put in front where it is missing.
* Java: the class that has `main` is run, wherever in the file it stands; the file is named after the public class.
* Kotlin: a file with `fun main`, at its top or static in an object, is a program, anything else a script, as in `.kts`.
* C#: statements at the top or a class with `Main`. With Mono only the latter.
* Node.js: ES modules and CommonJS are told apart by Node.js itself, from version 20.19 on.

Line numbers in errors are those of the program as it was given, and a copy is called by its name (`code.py`), not by
its place. C++ and R themselves name no line for what nobody catches.

## Programs of several files

A `FILE` of the workspace that is interpreted runs where it stands, and finds what is beside it: `import helper`,
`require_relative`, `. "$(dirname "$0")/lib.sh"`. What it finds there it reads itself, with the access it was granted.

Everything else runs from a copy in a directory of its own, with nothing beside it: `CODE`, a program on standard input,
a file outside of the workspace, one that its job may not read, any file without access to the workspace, one that must
be changed first (a byte order mark, PHP without `<?php`) or has a suffix that is not its runtime's. A copy is what was
asked for: a file that has become another one meanwhile is not run instead.

A compiler sees the one file alone. Programs of several files in C, C++, Rust, Go, Java, Kotlin and C# are compiled by a
shell program, which may read the workspace and write to `TMPDIR`, with toolchains of the system's directories:

```console
paddock exec shell -c 'gcc src/*.c -o "$TMPDIR/main" && "$TMPDIR/main"'
```

## Arguments without a program

With `-- ARGS` and no program the runtime's own executable gets the arguments: `paddock exec python -- -m unittest`,
`paddock exec node -- --test`, `paddock exec java -- -jar app.jar`. For Go that is `go run`, or the command of Go's own
that the arguments begin with: `paddock exec go -- run .` or `paddock exec go -- test ./...` in a module, with the
dependencies that are in its directory `vendor`.

## Faster starts

`paddock runtimes warm` makes once per toolchain what compilers can start from: Go's compiled standard library
(for programs, `go run` and `go test`), archives of the classes of the Java and Kotlin compilers, the class that begins
a Kotlin script. It is kept in the cache directory and read-only to programs. When a toolchain changes, it is no longer
used until it is made again.

A session that runs a second program with the same grants keeps a confined place ready for the third
(`sandbox.spares`), and looks for a toolchain again only when something changed that a search would see.

## Stopping a program

Ctrl-C ends a program to its last process, and so do SIGTERM and a terminal that closes; what was ignored before, as
under nohup, stays ignored. What it wrote until then is shown, or told by `--mode` and `--json` with the status
`cancelled`, and kept like any other output; the exit code is 130, or 128 and the number of the signal. A program that
waits for its turn is taken out of the queue. From Python, set the event `stop`; cancelling
the task that waits ends the program too, and raises as everywhere in asyncio. An MCP client that cancels gets no
answer, as the protocol has it, but the record names what is kept.

## What is shown

A pipe gets the bytes that a program writes. A terminal gets text: colours and carriage returns as they are, any other
control character spelled out (`\\x1b`), for it could move the cursor, retitle the window or write to the clipboard.
Colours end with the program, so that none of them hides what comes next. A line is shown when it is complete,
because a secret is recognized only then; a carriage return completes it, so a progress bar is shown as it moves. Switch
redaction off (`redaction.enabled`) to get every byte at once, if no secret of the vault is read. When output is not
kept for later, for instance because there is more of it than `artifacts.max_bytes`, the last line on standard error
says so, unless `--no-keep` or `artifacts.enabled` does.

Standard output and standard error are two pipes, and the order between two pipes is not known. Where both go to the
same place, on a terminal or with `2>&1`, the program writes to one pipe, and the order is kept. `--combined`, the
argument `combined` of `run_program` and `exec(..., combined=True)` ask for one: all of it is standard output then.

In `--mode`, in answers to agents and in `query_output`, output that redraws itself is shown as a terminal leaves it:
progress as its last frame. That holds for carriage returns, for lines that are erased and drawn anew, and for several
lines that the cursor goes up to, as docker, npm and cargo do. Lines are numbered as they are shown. What is kept is
every byte: `paddock output show`.

When nobody reads any more, the program ends and the exit code is 141. A stream that was closed is as good as
`/dev/null`. Output that cannot be written, for instance to a full disk, is an error with the exit code 125.

## What a program finds

Its working directory, where it is granted, and a home and `TMPDIR` of its own, which go when it ends. `PATH` is
`/usr/local/bin:/usr/bin:/bin` and what its toolchain needs; the language is `C.UTF-8`; variables of yours, `TZ` among
them, come by `runtimes.environment`. Without a network it hears at once that it may not make a socket; looking up a
name fails like a network that is down. In the tier `landlock`, `/tmp` itself and `/dev/shm` are closed: what ignores
`TMPDIR`, semaphores such as those of Python's `multiprocessing.Pool`, and Mono in a shell program, which asks `/proc`,
need the tier `namespaces`.

Paddock that runs as root, as in many containers, runs programs in a workspace as root without its powers in the tier
`namespaces`. They cannot change what belongs to somebody else: name the owner in `sandbox.job_user`. In the tier
`landlock` they run as user 65531: toolchains and workspaces have to be where that user may enter, and a workspace is
granted for writing where that user may write.
"""

OUTPUT = """
## When output comes

Output is passed on as the program writes it, and a program that is killed loses none that it has written. Buffers of
the language itself are switched off, so that each line comes at once:

| runtime | output leaves the program | how a program buffers it |
|---|---|---|
"""

AFTER_OUTPUT = """
Each write costs one to three microseconds of CPU time. Languages that would have buffered (C, C++, Perl, Python and
Ruby) take a second or two longer for a million lines. A program that prints so much buffers it as the table says; then
lines come late, out of order with standard error, and are lost when the program is killed. In C++, `std::cout` is
flushed at each line until `sync_with_stdio(false)`. Programs that a shell program compiles or starts are not changed.
"""

MEMORY = """
## Out of memory

A program that uses more memory than it may is ended with the status `memory_limit`. A runtime that gets no more memory
ends by itself, often before: its heap has a limit, and one allocation may be larger than all there is. That is
`memory_limit`, too, where the runtime shows it by its exit code or signal together with its own last words on standard
error: in {known}.

{others} show no such thing. There the status is `failed`, and the hint says how much memory the
program had.
"""


def page() -> str:
    """Return the page."""
    rows = [row(recipe, way) for recipe in recipes().values() for way in recipe.ways]
    commands = [lines(recipe, way) for recipe in recipes().values() for way in recipe.ways]
    return "".join(
        [
            HEAD,
            OUTPUT,
            *(
                f"| `{recipe.name}` | {recipe.output} | {recipe.output_buffered.replace('|', chr(92) + '|')} |\n"
                for recipe in recipes().values()
            ),
            AFTER_OUTPUT,
            memory(),
            "\n## Languages\n\n",
            "| runtime | executable | file | needs as well | install | remark |\n|---|---|---|---|---|---|\n",
            *rows,
            "\n## Commands\n\nWords in braces are filled in for each job; the caller's arguments follow.\n",
            "Arguments without a program are those of the executable, unless more is shown.\n",
            *commands,
        ]
    )


def memory() -> str:
    """Return the section about runtimes that get no more memory."""
    known = [recipe.title for recipe in recipes().values() if recipe.ways[0].out_of_memory]
    others = [recipe.title for recipe in recipes().values() if recipe.title not in known]
    return MEMORY.format(known=listed(known), others=listed(others))


def listed(names: Sequence[str]) -> str:
    """Return names as they are listed in a sentence."""
    return f"{', '.join(names[:-1])} and {names[-1]}"


def row(recipe: Recipe, way: RecipeVariant) -> str:
    """Return the row of one way."""
    first = way is recipe.ways[0]
    cells = (
        f"`{recipe.name}`" if first else "",
        ", ".join(f"`{name}`" for name in way.executables),
        f"`{recipe.extensions[0]}`" if first else "",
        ", ".join(" or ".join(f"`{name}`" for name in names) for names in way.tools.values()),
        install(recipe) if first else "",
        way.note,
    )
    return f"| {' | '.join(cells)} |\n"


def install(recipe: Recipe) -> str:
    """Return where the toolchain is to be had."""
    choices = [
        " and ".join(f"{manager} `{' '.join(names)}`" for manager, names in choice.packages.items())
        for choice in recipe.install
    ]
    return ", or ".join((*choices, *([recipe.elsewhere] if recipe.elsewhere else [])))


def lines(recipe: Recipe, way: RecipeVariant) -> str:
    """Return the commands of one way."""
    words = [way.compile, way.run] if way.compile else [way.run]
    told = "\n".join(" ".join(step) for step in words)
    alone = (
        f"\nand with arguments alone:\n\n```text\n{' '.join(way.arguments)}\n```\n"
        if way.arguments[1:]
        else ""
    )
    return f"\n{recipe.title} with {way.executables[0]}:\n\n```text\n{told}\n```\n{alone}"


def main() -> int:
    """Write or check the page."""
    if "--check" not in sys.argv:
        TARGET.write_text(page())
    elif not TARGET.exists() or TARGET.read_text() != page():
        print("docs/runtimes.md is not what the recipes say: run python scripts/runtimes.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
