"""What policy says about the packages of a program."""

from pathlib import Path

import pytest

from paddock.gate.work import KINDS
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.work_files import InputFile
from paddock.policy.decisions.decision import Policy
from paddock.policy.settings.packages import PackageSettings
from paddock.policy.settings.schema import RuntimeSettings, Settings

METADATA = "# /// script\n# dependencies = [{}]\n# ///\nimport numpy\n"


def ask(surface: str = "cli", language: str = "python", **work: object) -> ExecutionRequest:
    given = {"code": "1", **work}
    return ExecutionRequest(workspace=Path("/w"), surface=surface, work=RuntimeRun(runtime=language, **given))


def decide(request: ExecutionRequest, **settings: object) -> Decision:
    policy = Policy(Settings(packages=PackageSettings(**settings)), KINDS)
    return policy.decide(policy.add_defaults(request))


@pytest.mark.parametrize(
    ("enabled", "surface", "expected"),
    [
        ("auto", "cli", "runs"),
        ("auto", "library", "runs"),
        ("auto", "mcp", "asks"),
        ("auto", "http", "asks"),
        ("on", "mcp", "runs"),
        ("ask", "cli", "asks"),
        ("off", "cli", "denied"),
    ],
)
def test_who_is_asked_about_packages(enabled: str, surface: str, expected: str) -> None:
    found = decide(ask(surface, packages=["numpy>=2", "six"]), enabled=enabled)
    outcome = "runs" if found.allowed else "asks" if found.asks else "denied"
    assert outcome == expected
    if outcome == "asks":
        assert found.asks == ("using the packages numpy>=2, six needs a person's approval",)


def test_a_program_without_packages_asks_nobody() -> None:
    assert decide(ask("mcp"), enabled="ask").allowed


@pytest.mark.parametrize(
    ("settings", "packages", "reason"),
    [
        ({"denied": ["num*"]}, ["Num.Py"], "the package num-py is not allowed by packages.denied"),
        ({"allowed": ["six"]}, ["six", "idna"], "the package idna is not allowed by packages.allowed"),
        ({"denied": ["Num_P*"]}, ["num.py"], "the package num-py is not allowed by packages.denied"),
        ({"allowed": ["six"]}, ["SIX[extra]>=1"], None),
        ({"allowed": ["Num_Py"]}, ["num.py"], None),
    ],
)
def test_names_are_allowed_or_not_in_any_spelling(
    settings: dict[str, object], packages: list[str], reason: str | None
) -> None:
    found = decide(ask(packages=packages), **settings)
    assert found.reasons == (() if reason is None else (reason,))


def test_script_metadata_counts_as_packages_and_is_decided() -> None:
    own = ask(code=METADATA.format("'numpy', 'six'"), packages=["six"])
    policy = Policy(Settings(), KINDS)
    assert policy.add_defaults(own).work.packages == ("numpy", "six")
    assert decide(own, denied=["numpy"]).reasons == ("the package numpy is not allowed by packages.denied",)
    assert policy.add_defaults(ask(code=METADATA.format(""))).work.packages == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "'numpy @ https://a.example/numpy.whl'",
            "'numpy @ https://a.example/numpy.whl' names an address; packages come from the configured index, as in 'numpy'",
        ),
        (
            "'--index-url=https://a.example'",
            "'--index-url=https://a.example' is not a requirement such as 'pandas>=2'",
        ),
        ("1", "the dependencies of the script metadata (PEP 723) are not a list of strings"),
    ],
)
def test_metadata_that_names_something_else_is_refused(content: str, reason: str) -> None:
    own = ask(code=METADATA.format(content))
    assert decide(own).reasons == (reason,)
    assert decide(own, enabled="off").allowed


@pytest.mark.parametrize("versions", ["1", "'x'", "'>=3.11, what'"])
def test_versions_of_python_that_are_none_are_refused(versions: str) -> None:
    own = ask(code=f"# /// script\n# requires-python = {versions}\n# ///\n")
    assert decide(own).reasons == (
        "`requires-python` of the script metadata (PEP 723) is not a version such as '>=3.11'",
    )
    assert decide(own, enabled="off").allowed


def test_a_package_file_of_a_node_program_counts_as_packages() -> None:
    file = InputFile(path="package.json", data=b'{"dependencies": {"left-pad": "^1", "@a/b": "2"}}')
    own = ask(language="node", files=[file])
    assert Policy(Settings(), KINDS).add_defaults(own).work.packages == ("left-pad@^1", "@a/b@2")
    other = InputFile(path="package.json", data=b'{"dependencies": {"left-pad": "git+ssh://a.example/b"}}')
    assert decide(ask(language="node", files=[other])).reasons == (
        "'left-pad@git+ssh://a.example/b' does not name versions; packages come from the configured registry, as in "
        "'left-pad@^1'",
    )


@pytest.mark.parametrize("first", [{}, {"env": {"A": "1"}}])
def test_a_decision_on_one_program_is_not_that_on_another(first: dict[str, object]) -> None:
    """Decisions are remembered by what they depend on: variables, files of the workspace, packages."""
    settings = Settings(
        runtimes=RuntimeSettings(environment=("A",), access="none"), packages=PackageSettings(denied=("six",))
    )
    policy = Policy(settings, KINDS)
    assert policy.decide(ask(access="none", **first)).allowed
    copied = InputFile(path="a", workspace="a")
    for other in ({"env": {"B": "1"}}, {"files": [copied]}, {"packages": ["six"]}):
        assert not policy.decide(ask(access="none", **other)).allowed
        assert policy.decide(ask(access="none", **first)).allowed
