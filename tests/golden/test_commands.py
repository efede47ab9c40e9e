"""What commands print with `--json`."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.support.command import make_environment, run_paddock
from tests.support.golden import check_golden, replace_volatile
from tests.support.servers import make_entry, write_servers

COMPUTATION = '{"source": "emit(read_input().length)", "input": "hello"}'
COMMANDS = (
    ("exec", "python", "-c", "print(6 * 7)"),
    ("exec", "python", "-c", "import sys; print('a'); sys.exit(3)"),
    ("exec", "cobol", "-c", "1"),
    ("exec", "python", "--network", "full", "-c", "1"),
    ("compute",),
    ("run", "none"),
    ("run", "hello"),
    ("script", "list"),
    ("script", "show", "hello"),
    ("sequence", "list"),
    ("sequence", "run", "none"),
    ("temporal", "list"),
    ("servers", "list"),
    ("servers", "tools", "odd"),
    ("servers", "describe", "odd.echo"),
    ("servers", "search", "say it again"),
    ("servers", "call", "odd", "echo", '{"text": "x"}'),
    ("servers", "resources", "lib", "file:///notes.md"),
    ("servers", "prompts", "odd"),
    ("servers", "diff"),
    ("servers", "confine", "odd"),
    ("tool", "list"),
    ("tool", "show", "greet"),
    ("tool", "validate"),
    ("tool", "run", "greet", "--input", '{"text": "a b"}'),
    ("output", "list"),
    ("output", "query", "none", "--term", "x"),
    ("vault", "list"),
    ("webhook", "list"),
    ("approve",),
    ("policy", "show"),
    ("policy", "explain", "python"),
    ("policy", "check", "none.toml"),
    ("policy", "flows"),
    ("config", "show", "limits"),
    ("serve", "token", "list"),
    ("audit", "show", "01JD3W0ZV6N4YQ1R2X5T7B8C9D"),
    ("audit", "verify"),
    ("replay", "01JD3W0ZV6N4YQ1R2X5T7B8C9D"),
    ("record", "list"),
    ("record", "purge"),
    ("script", "test"),
    ("changes", "list"),
    ("changes", "show", "changes-0"),
    ("changes", "diff", "changes-0"),
    ("changes", "accept", "changes-0"),
    ("changes", "undo", "changes-0"),
    ("changes", "discard", "changes-0"),
    ("ps",),
    ("nothing",),
)


def test_documents_of_commands(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    environment = make_environment(home, PADDOCK_SERVERS_SEMANTIC_SEARCH="off")
    write_servers(workspace, {"odd": make_entry("odd"), "lib": make_entry("library")})
    for made in ("tool", "greet"), ("script", "hello"):
        run_paddock(workspace, made[0], "new", made[1], environment=environment)
    found: list[Any] = []
    for words in COMMANDS:
        stdin = COMPUTATION if words == ("compute",) else ""
        done = run_paddock(workspace, *words, "--json", stdin=stdin, environment=environment)
        document = json.loads(done.stdout) if done.stdout else done.stderr
        found.append({"command": " ".join(words), "exit_code": done.returncode, "document": document})
    check_golden(
        "commands.json", replace_volatile(found, {str(tmp_path): "<place>", sys.executable: "<python>"})
    )
