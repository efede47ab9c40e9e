"""The reference says what the source says, and says something of everything that people may meet."""

import ast
import inspect
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

import paddock
from paddock.engines.programs.recipe import recipes
from paddock.gate.audit_facts import identity_facts
from paddock.model.directories import GrantedDirectory
from paddock.model.network import NetworkRule
from paddock.model.outcome import Decision, Status
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.settings.commands import SdkCommand
from paddock.policy.settings.flow import FlowLabel, FlowRule
from paddock.policy.settings.keys import leaves
from paddock.policy.settings.recipes import Recipe, RecipeVariant
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import RedactionPattern, Repository, Settings
from paddock.policy.settings.serve import ServeToken
from paddock.record.ledger.sink import RECOVERED, STARTED
from paddock.record.ledger.writer import Ledger
from paddock.surfaces.cli.root import command as paddock_command

ROOT = Path(__file__).resolve().parents[2]
REWRITE = "run `python scripts/reference.py`"


@cache
def sources():
    """Return the syntax tree of each file of the package."""
    return {path: ast.parse(path.read_text()) for path in sorted((ROOT / "src" / "paddock").rglob("*.py"))}


def page(name):
    return (ROOT / "docs" / name).read_text()


def first_cells(text):
    """Return what the tables of a page begin their rows with."""
    return set(re.findall(r"^\| \[?`([^`]+)`", text, re.MULTILINE))


def calls(*, named):
    """Yield each call of a function or method of that name in the source."""
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                if name == named:
                    yield path, node


def test_the_reference_is_current():
    command = [sys.executable, ROOT / "scripts" / "reference.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_setting_is_described():
    described = set()
    for heading, section in re.findall(
        r"^## `\[+([\w.]+)\]+`\n(.*?)(?=^## |\Z)", page("configuration.md"), re.MULTILINE | re.DOTALL
    ):
        rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]* \| ([^|]{10,}) \|$", section, re.MULTILINE)
        described |= {f"{heading}.{name}" for name, _ in rows}
    listed = {
        "policy.rule": Rule,
        "network.rule": NetworkRule,
        "flow.label": FlowLabel,
        "flow.rule": FlowRule,
        "redaction.patterns": RedactionPattern,
        "sdk.commands": SdkCommand,
        "mcp.repos": Repository,
        "serve.token": ServeToken,
        "workspace.directory": GrantedDirectory,
    }
    members = {f"{key}.{name}" for key, kind in listed.items() for name in kind.model_fields} - {
        "policy.rule.origin",
        "network.rule.origin",
        "flow.rule.origin",
    }
    members |= {
        f"{key}.{field.alias or name}"
        for key, kind in (("runtimes.recipes.NAME", Recipe), ("runtimes.recipes.NAME.variant", RecipeVariant))
        for name, field in kind.model_fields.items()
    } - {"runtimes.recipes.NAME.name"}
    expected = set(leaves(Settings())) - set(listed) | members
    assert described == expected, (
        f"write a docstring below the field in policy/settings/schema.py, then {REWRITE}"
    )


def test_every_status_is_described():
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]{10,}) \|", page("answers.md"), re.MULTILINE))
    missing = {status.value for status in Status} - set(rows)
    assert not missing, f"write a docstring below the member in model/outcome.py, then {REWRITE}"


def test_every_exit_code_is_described():
    codes = set()
    for name, position in (("exit", 0), ("CommandFailure", 1)):
        for path, call in calls(named=name):
            if {"cli", "mcp_server"} & set(path.parts):
                given = [word.value for word in call.keywords if word.arg in ("exit_code", "code")]
                given += call.args[position : position + 1]
                codes |= {code for argument in given for code in constants(argument, path)}
    assert codes >= {1, 125, 127}
    missing = {str(code) for code in codes if code < 128} - first_cells(page("answers.md"))
    assert not missing, f"add it to EXIT_CODES of scripts/pages/answers.py, then {REWRITE}"


def constants(argument, path):
    """Yield the numbers that an argument may be: a number, or a name that stands for one at the head of its module."""
    known = {
        name.id: number.value
        for node in sources()[path].body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name, number in zip(
            getattr(target, "elts", [target]), getattr(node.value, "elts", [node.value]), strict=False
        )
        if isinstance(name, ast.Name) and isinstance(number, ast.Constant) and isinstance(number.value, int)
    }
    if isinstance(argument, ast.Constant) and isinstance(argument.value, int):
        yield argument.value
    if isinstance(argument, ast.Name) and argument.id in known:
        yield known[argument.id]


def paths_of(command, path):
    """Yield a command and the commands below it, as people type them, and every option of theirs."""
    context = click.Context(command, info_name=path)
    yield (
        path,
        {
            option
            for parameter in command.get_params(context)
            if isinstance(parameter, click.Option) and "--help" not in parameter.opts and not parameter.hidden
            for option in parameter.opts
        },
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from paths_of(command.get_command(context, name), f"{path} {name}")


def test_every_command_and_option_is_described():
    text = page("commands.md")
    sections = dict(re.findall(r"^##+ `(paddock [^`]+)`\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL))
    silent = [path for path, section in sections.items() if len(section.split("```\n")[1].strip()) < 10]
    assert silent == [], f"write a docstring for the command, then {REWRITE}"
    for path, options in list(paths_of(paddock_command, "paddock"))[1:]:
        told = set(re.findall(r"(?<![\w-])--?\w[\w-]*", sections[path]))
        assert options - told == set(), f"{path}: give the option a `help`, then {REWRITE}"
    without = re.findall(r"^\| `-[^|]*\| *\|$", text, re.MULTILINE)
    assert without == [], f"give the option a `help`, then {REWRITE}"


def test_every_method_of_the_sdk_is_described():
    glue = (ROOT / "src" / "paddock" / "engines" / "javascript" / "js" / "bootstrap" / "sdk.js").read_text()
    names = set(re.findall(r'"([a-z]+\.[a-z]+)"', glue))
    assert names >= {"vault.get", "cir.capture", "sequence.run"}
    assert {name for name in names if f"{name}(" not in page("sdk.md")} == set(), "add it to docs/sdk.md"


def test_every_command_is_in_the_changes():
    pages = [ROOT / "CHANGELOG.md", *sorted((ROOT / "changelog.d").glob("*.md"))]
    text = "".join(page.read_text() for page in pages)
    context = click.Context(paddock_command)
    missing = [
        name
        for name in paddock_command.list_commands(context)
        if f"`paddock {name}" not in text and f"`{name}`" not in text
    ]
    assert missing == [], "say in changelog.d what people can do now"


def test_every_mcp_tool_is_described():
    names = {
        word.value.value
        for _, call in calls(named="McpTool")
        for word in call.keywords
        if word.arg == "name" and isinstance(word.value, ast.Constant)
    }
    pages = page("mcp-tools.md") + page("compat.md")
    described = set(re.findall(r"^##+ `([\w.]+)` \{#", pages, re.MULTILINE))
    assert len(names) >= 7
    assert names - described == set(), f"list the tool in surfaces/mcp_server/service.py, then {REWRITE}"
    listed = re.findall(r"^\| \[`([\w.]+)`\]", page("mcp-tools.md"), re.MULTILINE)
    readme = (ROOT / "README.md").read_text().partition("| tool | ")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE) == listed, (
        "README.md: one row for each tool, in the order of the list"
    )


def test_every_ledger_event_is_described():
    events = {STARTED, RECOVERED}
    for _, call in calls(named="append"):
        if len(call.args) > 1 and isinstance(call.args[0], ast.Constant):
            events.add(call.args[0].value)
    assert events >= {"finished", "decided"}
    missing = events - first_cells(page("record.md"))
    assert not missing, f"add it to EVENTS of scripts/pages/record.py, then {REWRITE}"


def test_every_member_of_a_record_is_described(tmp_path):
    work = RuntimeRun(runtime="python", code="", file="main.py")
    facts = identity_facts(ExecutionRequest(workspace=tmp_path, work=work), Decision(allowed=True))
    with Ledger(tmp_path) as ledger:
        ledger.append("decided", "", facts)
    [line] = [path.read_text() for path in tmp_path.glob("*.ndjson")]
    assert json.loads(line)["file"] == "main.py"
    missing = set(json.loads(line)) - first_cells(page("record.md"))
    assert not missing, f"add it to FACTS of scripts/pages/record.py, then {REWRITE}"


def test_every_recipe_is_described():
    missing = set(recipes()) - first_cells(page("runtimes.md"))
    assert not missing, "run `python scripts/runtimes.py`"


@pytest.mark.parametrize("name", [name for name in paddock.__all__ if not name.startswith("__")])
def test_every_public_name_is_described(name):
    text = page("python.md")
    kind = getattr(paddock, name)
    if inspect.isfunction(kind):
        assert f"\n### `{name}()`\n" in text
        return
    if issubclass(kind, Exception):
        assert f"\n| `{name}` | " in text
        return
    mark = "##" if f"\n## `{name}`\n" in text else "###"
    assert f"\n{mark} `{name}`\n" in text
    if name in ("Settings", "Status"):
        return
    section = text.split(f"\n{mark} `{name}`\n")[1].split(f"\n{mark} `")[0]
    members = kind.model_fields if issubclass(kind, BaseModel) else vars(kind)
    public = {member for member in members if not member.startswith("_")}
    assert {member for member in public if not re.search(rf"\b{member}\b", section)} == set()
    assert re.findall(r"^\| `\w+` \| [^\n]* \|  \|$", section, re.MULTILINE) == [], (
        f"write a docstring below the member, then {REWRITE}"
    )


PRINTED = {
    "hidden": ".env is hidden from programs, because it holds secrets (workspace.hide); a person can show it with "
    "`paddock exec --show .env`, or for agents with `show` under [workspace] in the user's paddock.toml",
    "network": "it has no network; request the network loopback (`--network loopback`, or the argument `network` of a "
    "tool) for its own servers on 127.0.0.1, hosts for hosts that a [[network.rule]] allows, or full, within "
    "`runtimes.network`",
    "packages": 'emoji must be installed first, and the installation has no network (packages.network = "none")',
    "limits": "used more memory than it may",
    "busy": "Concurrency limit reached (4/4 active jobs): all of them run. Nothing started; it is safe to retry.",
    "sessions": "the process of Paddock that had it has ended",
    "pins": "Tool git.push is not what it was when it was first used, so it was not called. A person can see what "
    "changed with `paddock servers diff git` and accept it with `paddock servers approve git push`.",
    "http": "421 wrong-host",
    "doctor": "layer user namespaces: kernel.unprivileged_userns_clone is 0",
}
"""Messages as users see them, by their section of the page."""


@pytest.mark.parametrize("anchor", PRINTED)
def test_a_message_is_in_its_section_of_the_page_of_troubleshooting(anchor):
    section = page("troubleshooting.md").partition(f" {{#{anchor}}}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", section.replace("\\[[", "[["), re.MULTILINE)
    patterns = [".+".join(map(re.escape, row.split("…"))) for row in rows]
    assert [row for row in patterns if len(row) > 10 and re.fullmatch(row, PRINTED[anchor])], PRINTED[anchor]


def test_each_message_of_a_program_that_failed_has_a_section():
    assert set(PRINTED) < set(re.findall(r"\{#(\w+)\}", page("troubleshooting.md")))


def test_the_text_for_models_names_tools_and_arguments_that_there_are():
    [text] = re.findall(r"^```text\n(.*?)^```$", page("tell-a-model.md"), re.MULTILINE | re.DOTALL)
    tools = set(re.findall(r"^## `(\w+)`", page("mcp-tools.md"), re.MULTILINE))
    arguments = set(re.findall(r'^      "(\w+)": \{|^    "(\w+)": \{', page("mcp-tools.md"), re.MULTILINE))
    known = tools | {name for pair in arguments for name in pair if name}
    named = set(
        re.findall(r"`([a-z]+_[a-z_]+|access|code|language|network|outputs|packages|queries|session)`", text)
    )
    assert len(named) > 12
    assert named - known == set()
