"""Write docs/runtimes.md, the table of languages and of how each is run, from the recipes.

`python scripts/runtimes.py` writes it; with `--check` it compares instead, and exits with 1 on a difference.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from paddock.engines.programs.recipe import recipes
from paddock.policy.settings.recipes import Recipe, RecipeVariant

TARGET = Path(__file__).resolve().parent.parent / "docs" / "runtimes.md"

HEAD = """\
# Runtimes

<!-- Written by scripts/runtimes.py from src/paddock/engines/programs/recipes.toml; `make check` compares.
Change the recipes. -->

Paddock contains no language. It runs programs with the toolchains of the machine. `paddock runtimes` lists
the toolchains that it found. `paddock runtimes --check` runs a confined program in each of them. `paddock
runtimes install` prints the commands that install one, or runs them with `--yes`.

## Choice of a toolchain

Paddock uses the first executable of the table, from top to bottom, that is on PATH. A request may name
another executable of the runtime. Paddock ignores:

* directories of PATH that are not absolute
* executables in the workspace, because a program may have put them there
* executables that the programs' user cannot reach

If Paddock runs as root, it runs programs as another user unless they work in root's files. They cannot use a
toolchain in root's home (rustup, pyenv, nvm). Install one for the whole machine.

Paddock asks the shims of version managers for the program behind them. It grants read access to a toolchain
outside the system's directories, as narrowly as it can. It rejects a toolchain that would open a home
directory.

`paddock runtimes` and `paddock doctor` name the executable that `paddock exec` would use in the workspace.
With `--access none` programs may run as another user and use another executable; `paddock runtimes` then
names that one too.

## Python environments

Programs can use the packages of an activated environment if its `bin` is first on PATH and outside the
workspace. To use another environment, made by venv, uv, virtualenv or conda, name it in the user's settings:

```toml
[runtimes.python]
environment = "~/.venvs/data"
```

Programs can read all of it and change nothing. Paddock never substitutes another environment. If it cannot
use the named one, Python programs are `unavailable`, and the error says why.

Paddock ignores the workspace's own environment (the activated one, otherwise `.venv`), because a program may
have changed it. `workspace_environment = true` under `[runtimes]` in the user's settings lets programs use
it. These conditions apply:

* The interpreter must belong to an installation outside the workspace. Programs must be able to read its
  `bin` and `lib`.
* `.venv` and its `bin` must be directories, not links.
* With `workspace-write`, only the tier `namespaces` can keep the environment unchanged. In the tier
  `landlock` it is ignored.

If a module is missing, the hint names the interpreter, the ignored environment, and the reason.

A `.pth` file of an environment, as `pip install -e` writes it, grants nothing. Of the directories that it
names, a program can read those in the workspace. Script tools use the first interpreter on PATH.

## Packages of Node.js

Programs in JavaScript and TypeScript can load packages that you installed once, such as lodash. Name their
directory in the user's settings:

```toml
[runtimes.node]
environment = "/opt/node-packages"
```

Its `node_modules` is then beside each program that does not name packages itself. Programs can read it and
cannot change it. A file that runs in place in the workspace uses the packages of the workspace.

## Names of languages

Letter case does not matter, and common names are accepted everywhere. `shell` is also `bash` and `sh`, and
`node` is also `nodejs`, `js` and `javascript`. Others are `py`, `python3`, `ts`, `golang`, `c++`, `c#`, `rb`,
`rs`, `pl` and `kt`. There is one exception. Over HTTP, `javascript` and `typescript` without a `kind` are
programs of the V8 guest, and a session in `javascript` is one of the guest. Write `node` for Node.js there.

## Further languages

Settings can add a language that this page lacks. Write a table `[runtimes.recipes.NAME]` into your own settings file,
or into the system's:

```console
$ mkdir -p ~/.config/paddock
$ cat > ~/.config/paddock/paddock.toml <<'END'
> [runtimes.recipes.awk]
> title = "AWK"
> extensions = [".awk"]
> hello = 'BEGIN { print "hello from paddock" }'
>
> [[runtimes.recipes.awk.variant]]
> executables = ["mawk", "gawk"]
> run = ["{executable}", "-f", "{source}", "--"]
> version = { argv = ["{executable}", "-W", "version"], pattern = '(?i)awk,? (?:version )?([0-9.]+)' }
> END
$ paddock exec awk -c 'BEGIN { print ARGV[1] * 7 }' -- 6
42
$ paddock policy check awk --network full
denied to agents and programs; for a person's own `paddock exec --access read-only --network full`: allowed
  network full is not granted (granted: loopback); set `network = "full"` under [runtimes] in the \
paddock.toml of the user or the system
  no setting decides this, so the flags of your own command do
```

[The reference](configuration.md#runtimesrecipesname) lists all keys of the table and of its variants. `title`,
`extensions`, `hello` and at least one `variant` are required. A variant needs `executables`, `run` and `version`.

The language then works like a built-in one: in `paddock exec`, `run_program`, `paddock.exec` and script tools, in
rules and `runtimes.allowed`, in `paddock runtimes`, `paddock doctor` and completion. These limits apply:

* A workspace may not add a language, because a recipe names programs and the directories that they may read.
* A name that is built in, also as an alias such as `bash`, or that two files define, is an error.
* A suffix that a built-in language has stays with that language when a script tool names no runtime.
* Paddock matches `out_of_memory` and `version` against output of programs. Write patterns that do not backtrack.
* The commands of `shim` and `warm` run outside of the sandbox.

## Programs in two styles

* PHP: Paddock adds `<?php` if it is missing.
* Java: the class with `main` runs, at any position in the file. The file is named after the public class.
* Kotlin: a file with `fun main`, at the top level or static in an object, is a program. Any other file is a
  script, as in `.kts`.
* C#: top-level statements or a class with `Main`. Mono supports only the latter.
* Node.js: Node.js itself distinguishes ES modules and CommonJS, from version 20.19 on.

Line numbers in errors are those of the submitted program. A copy is named by its file name (`program.py`),
without its directory. C++ and R report no line for an uncaught error.

## Programs of several files

An interpreted `FILE` of the workspace runs in place and finds the files beside it: `import helper`,
`require_relative`, `. "$(dirname "$0")/lib.sh"`. It reads them itself, with the access that it was granted.

Everything else runs from a copy in a separate directory, without files beside it:

* `CODE`, and a program on standard input
* a file outside the workspace, and any file without access to the workspace
* a file that its job may not read
* a file that must be changed first (a byte order mark, PHP without `<?php`)
* a file with a suffix of another runtime

A copy contains what was requested. If the file changes in the meantime, the changed version does not run.

A compiler sees only one file. To compile a program of several files in C, C++, Rust, Go, Java, Kotlin or C#,
use a shell program. It may read the workspace, write to `TMPDIR`, and use the toolchains in the system's
directories:

```console
paddock exec shell -c 'gcc src/*.c -o "$TMPDIR/main" && "$TMPDIR/main"'
```

## Arguments without a program

With `-- ARGS` and no program the runtime's own executable gets the arguments: `paddock exec python -- -m
unittest`, `paddock exec node -- --test`, `paddock exec java -- -jar app.jar`. For Go the executable is `go
run`, or the subcommand of `go` that the arguments begin with. Examples are `paddock exec go -- run .` and
`paddock exec go -- test ./...` in a module, with the dependencies in its directory `vendor`.

## Faster starts

`paddock runtimes warm` prepares, once for each toolchain, data that compilers can start from:

* Go's compiled standard library (for programs, `go run` and `go test`)
* class archives of the Java and Kotlin compilers
* the class that starts a Kotlin script

The data is in the cache directory, and programs can only read it. After a change of the toolchain it is not
used until you run the command again.

An open Paddock that runs a second program with the same grants starts a sandbox ahead for the third
(`sandbox.spares`). It searches for a toolchain again only after a change that the search would notice.

## Stopping a program

Ctrl-C ends a program with all its processes. SIGTERM and a closed terminal do the same. A signal that was
ignored before, as under nohup, stays ignored. The output up to then is printed, or reported by `--mode` and
`--json` with the status `cancelled`. It is stored like any other output. The exit code is 130, or 128 plus
the signal number. A program in the queue is removed from it.

From Python, set the event `stop`. Cancelling the waiting task also ends the program, and raises as usual in
asyncio. An MCP client that cancels gets no answer, as the protocol requires, but the record names the stored
output.

## Output

A pipe gets the bytes that a program writes. A terminal gets text. Colours and carriage returns pass
unchanged. Any other control character is escaped (`\\x1b`), because it could move the cursor, change the
window title or write to the clipboard. Colours end with the program, so that they cannot hide later output.

A line is printed when it is complete, because a secret is recognized only then. A carriage return completes a
line, so a progress bar is updated as it moves. To get every byte at once, disable redaction
(`redaction.enabled`); this works if no secret of the vault is read.

If output cannot be stored, for example because it is larger than `artifacts.max_bytes`, the last line on
standard error says so. `--no-keep` and `artifacts.enabled` switch storage off without this line.

Standard output and standard error are two pipes, and the order between two pipes is unknown. If both go to
the same destination, a terminal or `2>&1`, the program writes to one pipe and the order is kept.
`--combined`, the argument `combined` of `run_program` and `exec(..., combined=True)` request a single pipe.
All output is then standard output.

In `--mode`, in answers to agents and in `query_output`, output that redraws itself is shown as a terminal
leaves it. A progress bar becomes its last frame. This covers carriage returns, erased lines, and several
lines that the cursor moves up to, as docker, npm and cargo do. Line numbers refer to the lines as shown. The
stored output contains every byte: `paddock output show`.

If the reader of the output is gone, the program ends with the exit code 141. A closed stream behaves like
`/dev/null`. Output that cannot be written, for example to a full disk, is an error with the exit code 125.

## Environment of a program

* **Directories.** The working directory is the workspace, if it is granted. Otherwise it is a new directory
  with the files of the request and the program's own file, if the language needs it there. The home directory
  and `TMPDIR` are elsewhere, private, and deleted when the program ends.
* **Stack.** The stack of the first thread may grow as large as the memory limit allows, whatever `ulimit -Ss`
  is for Paddock itself. `limits.runtime.stack_bytes` sets a smaller maximum. Only root with `CAP_SYS_RESOURCE` can
  raise a hard limit (`ulimit -Hs`). If one remains, `paddock doctor` names it.
* **Variables.** `PATH` is `/usr/local/bin:/usr/bin:/bin` and what the toolchain needs. The language is
  `C.UTF-8`. Pass variables of yours, including `TZ`, with `runtimes.environment`.
* **Network.** Without the grant, creating a socket fails at once. Name resolution fails as if the network
  were down.
* **Shared directories.** In the tier `landlock`, `/tmp` itself and `/dev/shm` are closed. Programs that
  ignore `TMPDIR` need the tier `namespaces`. So do semaphores, such as those of Python's
  `multiprocessing.Pool`, and Mono in a shell program, which reads `/proc`.

If Paddock runs as root, as in many containers, programs in a workspace run as root without capabilities in
the tier `namespaces`. They cannot change files of another user; name the owner in `sandbox.job_user`. In the
tier `landlock` they run as user 65531. Toolchains and workspaces must be accessible to that user, and write
access to a workspace requires that this user may write there.
"""

OUTPUT = """
## Output buffers

Paddock passes on output as the program writes it. If a listener takes the output, or both streams are
combined, Paddock disables the language's own buffer, so that each line arrives at once. This holds for
`paddock exec`, sessions, streamed answers over HTTP, MCP calls with progress, and `on_output` of the library:

| runtime | output leaves the program | how a program buffers it |
|---|---|---|
"""

AFTER_OUTPUT = """
Each write costs one to three microseconds of CPU time. In languages that normally buffer (C, C++, Perl,
Python and Ruby), a million lines take a second or two longer. A program with so much output can enable
buffering as the table shows. Its lines then arrive late and out of order with standard error, and are lost if
the program is killed. In C++, `std::cout` is flushed at each line until `sync_with_stdio(false)`. Paddock
does not change programs that a shell program compiles or starts.

Without a listener, as with judged programs, batches and `/run_code`, these five languages buffer as they do in
a pipe. They write what is left in the buffer when they exit, also after an uncaught error. A program that is
killed, for example at its time limit, loses it.
"""

MEMORY = """
## Out of memory

Paddock ends a program that exceeds its memory limit with the status `memory_limit`. A runtime that gets no
more memory often ends by itself before that, because its heap has a limit or one allocation exceeds the rest.
This is also `memory_limit` if the runtime shows it by its exit code or signal together with its own message
on standard error. These do: {known}.
So is a program whose peak was above the limit, although its exit code is 0, and one whose data are too large
to be loaded.

{others} do not show it. There the status is `failed`, and the hint says how much memory the program had.
"""


def page() -> str:
    """Return the page."""
    rows = [row(recipe, variant) for recipe in recipes().values() for variant in recipe.variants]
    commands = [lines(recipe, variant) for recipe in recipes().values() for variant in recipe.variants]
    return "".join(
        [
            HEAD,
            OUTPUT,
            *(
                f"| `{each.name}` | {each.output_flushed} | {each.output_buffered.replace('|', chr(92) + '|')} |\n"
                for each in recipes().values()
            ),
            AFTER_OUTPUT,
            memory(),
            "\n## Languages\n\n",
            "| runtime | executable | file | needs as well | install | remark |\n|---|---|---|---|---|---|\n",
            *rows,
            "\n## Commands\n\nPaddock replaces the words in braces for each job and appends the caller's arguments.\n",
            "Arguments without a program go to the executable, unless more is shown.\n",
            *commands,
        ]
    )


def memory() -> str:
    """Return the section about runtimes that get no more memory."""
    known = [recipe.title for recipe in recipes().values() if recipe.variants[0].out_of_memory]
    others = [recipe.title for recipe in recipes().values() if recipe.title not in known]
    return MEMORY.format(known=listed(known), others=listed(others))


def listed(names: Sequence[str]) -> str:
    """Return names as they are listed in a sentence."""
    return f"{', '.join(names[:-1])} and {names[-1]}"


def row(recipe: Recipe, variant: RecipeVariant) -> str:
    """Return the row of one variant."""
    first = variant is recipe.variants[0]
    cells = (
        f"`{recipe.name}`" if first else "",
        ", ".join(f"`{name}`" for name in variant.executables),
        f"`{recipe.extensions[0]}`" if first else "",
        ", ".join(" or ".join(f"`{name}`" for name in names) for names in variant.tools.values()),
        install(recipe) if first else "",
        variant.note,
    )
    return f"| {' | '.join(cells)} |\n"


def install(recipe: Recipe) -> str:
    """Return where the toolchain is to be had."""
    choices = [
        " and ".join(f"{manager} `{' '.join(names)}`" for manager, names in choice.packages.items())
        for choice in recipe.install
    ]
    return ", or ".join((*choices, *([recipe.elsewhere] if recipe.elsewhere else [])))


def lines(recipe: Recipe, variant: RecipeVariant) -> str:
    """Return the commands of one variant."""
    words = [variant.compile, variant.run] if variant.compile else [variant.run]
    told = "\n".join(" ".join(step) for step in words)
    alone = (
        f"\nand with arguments alone:\n\n```text\n{' '.join(variant.arguments)}\n```\n"
        if variant.arguments[1:]
        else ""
    )
    return f"\n{recipe.title} with {variant.executables[0]}:\n\n```text\n{told}\n```\n{alone}"


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
