"""README and guides do what they say: their blocks are run or read, and every file and page they name exists."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from tests.support.command import ANY_LOAD, HANGS_S
from tests.support.forked import find_stand_in

from paddock.engines.servers.config import load_servers
from paddock.gate.schedules.schedule import Schedule
from paddock.gate.sequences.sequence import Sequence
from paddock.policy.settings.loader import load
from paddock.surfaces.cli.root import command as paddock_command

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = {
    "python.md",
    "client-libraries.md",
    "clients.md",
    "commands.md",
    "compat.md",
    "mcp-tools.md",
    "runtimes.md",
}
"""Written from the source: their blocks are signatures, help pages, schemas, and programs that other tests run."""
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in WRITTEN),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    """Return all blocks of a language, as parameters that are named after their page and their first line."""
    return [
        pytest.param(text, id=f"{path.stem}: {text.partition(chr(10))[0][:40]}")
        for path in PAGES
        for found, text in FENCE.findall(path.read_text())
        if found == language
    ]


def steps(block):
    """Yield each command of a block, continuation lines included, with the output it promises."""
    command, output = [], []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            if command:
                yield "".join(command), "".join(output)
            command, output = [line[2:]], []
        elif re.match(r">( |$)", line) and not output:
            command.append(line[2:] or "\n")
        else:
            output.append(line)
    yield "".join(command), "".join(output)


@pytest.fixture
def reader(tmp_path, real_servers):
    """Somebody in an empty workspace with Paddock and one MCP server."""
    command, *arguments = real_servers.time
    servers = {"mcpServers": {"time": {"command": command, "args": arguments}}}
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / ".mcp.json").write_text(json.dumps(servers))
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        **ANY_LOAD,
    }
    environment["PATH"] = f"{Path(find_stand_in(environment)).parent}:{environment['PATH']}"

    def type_in(command):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path / "workspace",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=HANGS_S,
        )
        return done.stdout

    return type_in


@pytest.mark.parametrize("block", blocks("console"))
def test_a_console_block_prints_what_it_shows(reader, tmp_path, block):
    for command, output in steps(block):
        assert reader(command) == output.replace("/home/ada/project", str(tmp_path / "workspace"))


def test_the_further_language_of_the_page_of_runtimes_runs(reader):
    section = (
        (ROOT / "docs" / "runtimes.md")
        .read_text()
        .partition("## Further languages\n")[2]
        .partition("\n## ")[0]
    )
    [block] = [text for language, text in FENCE.findall(section) if language == "console"]
    told = [(command, reader(command), output) for command, output in steps(block)]
    assert len(told) == 4
    assert [each for each in told if each[1] != each[2]] == []


def test_python_blocks_print_what_the_pages_say(reader):
    def printed(page):
        found = [text for language, text in FENCE.findall((ROOT / page).read_text()) if language == "python"]
        return [reader(f"python - <<'END'\n{text}END\n") for text in found], found

    outputs, shorts = printed("README.md")
    assert [len(short.splitlines()) <= 12 for short in shorts] == [True, True]
    assert outputs == ["ok [2, 4, 6]\n", "42\n\n"]
    [events, *others], _ = printed("docs/library.md")
    lines = events.splitlines()
    assert lines[:4] == ["ok [2, 4, 6]", *(f"level='log' text='{n}'" for n in range(3))]
    assert [re.sub(r"[\d.]+ ms", "", line) for line in lines[4:]] == ["<Outcome ok · >"]
    page = (ROOT / "docs/library.md").read_text()
    assert [output for output in others if f"```text\n{output}```" not in page] == []


@pytest.mark.parametrize("page", ["sessions", "python-tool", "batch"])
def test_python_blocks_of_guides_print_what_the_pages_say(reader, page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for block in (found for language, found in FENCE.findall(text) if language == "python"):
        printed = reader(f"python - <<'END'\n{block}END\n")
        assert f"```text\n{printed}```" in text, printed


def test_no_page_but_these_has_python_blocks():
    pages = {param.id.partition(":")[0] for param in blocks("python")}
    assert pages == {
        "README",
        "library",
        "sessions",
        "python-tool",
        "batch",
        "ray",
        "connect",
        "integrations",
    }


@pytest.mark.parametrize("block", blocks("sh"))
def test_a_shell_block_names_what_there_is(block):
    makefile = (ROOT / "Makefile").read_text()
    for line in filter(None, block.splitlines()):
        first, *rest = shlex.split(line, comments=True)
        if first == "make":
            assert re.search(rf"^{rest[0]}:", makefile, re.MULTILINE), line
        elif first == "paddock":
            understood(rest)
        else:
            assert first in {"pip", ".venv/bin/pytest"}, f"{line!r}: no test knows what this should do"


@pytest.mark.parametrize("block", blocks("toml"))
def test_a_toml_block_is_understood(tmp_path, block, monkeypatch):
    """As settings of the user, as a sequence, or as a schedule."""
    tree = tomllib.loads(block)
    if "step" in tree:
        Sequence.model_validate(tree)
    elif "cron" in tree:
        Schedule.model_validate(tree)
    else:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        (tmp_path / "config" / "paddock").mkdir(parents=True)
        (tmp_path / "config" / "paddock" / "paddock.toml").write_text(block)
        assert set(load(tmp_path, environment={}).sources.values()) > {"built in"}


# The blocks of http.md are answers, which test_http_page.py compares.
@pytest.mark.parametrize("block", [each for each in blocks("json") if not each.id.startswith("http: ")])
def test_a_json_block_names_servers(tmp_path, block):
    (tmp_path / ".mcp.json").write_text(block)
    found = load_servers(tmp_path / ".mcp.json", {"GITHUB_TOKEN": "a token"})
    itself = {name for name, why in found.absent.items() if why.endswith("is Paddock itself")}
    assert (set(found.servers) | itself, found.warnings) == (set(json.loads(block)["mcpServers"]), ())


@pytest.mark.parametrize("block", blocks("yaml"))
def test_a_yaml_block_has_commands_and_settings_that_there_are(tmp_path, block):
    for step in yaml.safe_load(block)["steps"]:
        first, *rest = shlex.split(step["run"])
        assert first in {"pip", "paddock"}
        if first == "paddock":
            understood(rest)
        load(tmp_path, environment=step.get("env", {}))


def test_every_block_has_a_language_that_a_test_reads():
    """`text` is what is shown and not run; `js`, `dockerfile` and blocks without a language are few, and named here."""
    read = {"console", "python", "sh", "toml", "json", "yaml", "text"}
    others = {
        (path.name, language)
        for path in PAGES
        for language, _ in FENCE.findall(path.read_text())
        if language not in read
    }
    assert others == {
        ("architecture.md", ""),
        ("connect.md", "bash"),
        ("connect.md", "ts"),
        ("docker.md", "dockerfile"),
        ("http.md", "bash"),
        ("notebook.md", "py"),
        ("overlay.md", "js"),
        ("sdk.md", "js"),
        ("sequences.md", ""),
    }


def understood(arguments):
    """Raise UsageError for what the command line does not know: a command, an option or a choice."""
    command, context = paddock_command, click.Context(paddock_command, info_name="paddock")
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    if arguments != ["--version"]:
        command.make_context(command.name, list(arguments), parent=context.parent)


def test_a_shell_block_with_a_wrong_option_would_be_found():
    with pytest.raises(click.UsageError, match="No such option '--colour'"):
        understood(["run", "hello", "--colour", "red"])


def test_links_lead_somewhere():
    for path in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"):
        links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
        assert [link for link in links if not (path.parent / link).exists()] == [], path


def test_the_readme_can_be_read_at_once():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 220, "move what is longer to a page of docs"


def test_the_picture_shows_what_the_commands_print(real_servers):
    command = [sys.executable, ROOT / "scripts" / "picture.py", "--check"]
    environment = {**os.environ, **ANY_LOAD}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_S
    )
    assert (done.returncode, done.stderr) == (0, "")
