"""README and guides do what they say: `console` blocks are run, and every file and command they name exists."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = README + (ROOT / "docs" / "tools.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGES, re.MULTILINE | re.DOTALL)


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
    }

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
            timeout=60,
        )
        return done.stdout

    return type_in


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.partition("\n")[0][2:42])
def test_a_console_block_prints_what_it_shows(reader, tmp_path, block):
    for command, output in steps(block):
        assert reader(command) == output.replace("/home/ada/project", str(tmp_path / "workspace"))


def test_the_python_block_runs(reader):
    [block] = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(block.splitlines()) <= 12
    printed = reader(f"python - <<'END'\n{block}END\n").splitlines()
    assert printed[:4] == [
        "ok [2, 4, 6]",
        "level='log' text='0'",
        "level='log' text='1'",
        "level='log' text='2'",
    ]
    assert [line.partition("=")[0] for line in printed[4:]] == ["status"]


def test_the_readme_has_console_blocks():
    assert len(BLOCKS) == 10


def test_links_lead_somewhere():
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "docs/architecture.md",
        "docs/tools.md",
    ):
        links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text())
        assert [link for link in links if not ((ROOT / name).parent / link).exists()] == []


def test_the_table_of_commands_is_complete():
    done = subprocess.run(
        [Path(sys.executable).with_name("paddock"), "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    offered = re.findall(
        r"^  ([a-z]+)  +\S", done.stdout.split("Commands:")[1].split("Examples:")[0], re.MULTILINE
    )
    assert re.findall(r"^\| `paddock ([a-z]+)`", README, re.MULTILINE) == offered


def test_every_target_the_readme_names_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
