"""Which paths the settings protect and which they give free, and who may say so."""

from pathlib import Path

import pytest

from paddock.model.errors import ConfigurationError
from paddock.policy.settings.loader import load
from paddock.policy.settings.merge import Merged

EXAMPLES = "write for example ci/deploy.sh, .github/workflows/** or **/.envrc"


def loaded(
    tmp_path: Path, *, system: str = "", user: str = "", workspace: str = "", **more: object
) -> Merged:
    for name, text in (("system", system), ("user", user), ("w/paddock", workspace)):
        path = tmp_path / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"[sandbox]\n{text}\n")
    return load(
        tmp_path / "w",
        environment={},
        system=tmp_path / "system.toml",
        user=tmp_path / "user.toml",
        **more,
    )


def failure(tmp_path: Path, **texts: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, **texts)
    return str(caught.value).replace(str(tmp_path), "")


def test_every_file_adds_paths(tmp_path: Path) -> None:
    merged = loaded(
        tmp_path,
        system='protected = ["a"]',
        user='protected = ["b/**"]',
        workspace='protected = ["**/c", ".d/*.json"]',
    )
    assert merged.settings.sandbox.protected == ("a", "b/**", "**/c", ".d/*.json")
    assert merged.sources["sandbox.protected"].replace(str(tmp_path), "") == (
        "/system.toml, line 2, /user.toml, line 2, /w/paddock.toml, line 2"
    )


def test_the_user_takes_paths_away_and_nobody_after_the_user(tmp_path: Path) -> None:
    assert loaded(tmp_path, user='unprotected = [".vscode"]').settings.sandbox.unprotected == (".vscode",)
    assert failure(tmp_path, workspace='unprotected = [".vscode"]') == (
        "/w/paddock.toml, line 2: a workspace may not set sandbox.unprotected; set it in /user.toml"
    )
    flags = {"sandbox.unprotected": ".vscode"}
    told = "--set sandbox.unprotected: this can only be set in a settings file"
    assert failure(tmp_path, flags=flags) == told


def test_the_user_takes_away_no_more_than_the_system_allows(tmp_path: Path) -> None:
    system = 'unprotected = [".vscode", ".idea"]'
    merged = loaded(tmp_path, system=system, user='unprotected = [".idea"]')
    assert merged.settings.sandbox.unprotected == (".idea",)
    assert failure(tmp_path, system=system, user='unprotected = [".zed"]') == (
        '/user.toml, line 2: sandbox.unprotected = [".zed"] allows more than [".vscode", ".idea"], which is what '
        "/system.toml, line 2 allows; change /system.toml, line 2 instead"
    )


@pytest.mark.parametrize(
    "rule",
    ["a", "ci/deploy.sh", ".github/workflows/**", "**/.envrc", "**/a/b", ".*/mcp*", "a/[bc]?/d", "a b/é"],
)
def test_paths_and_patterns_below_the_workspace_are_accepted(tmp_path: Path, rule: str) -> None:
    assert loaded(tmp_path, workspace=f'protected = ["{rule}"]').settings.sandbox.protected == (rule,)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("", "'' is not a path below the workspace, without . and .."),
        ("/etc", "'/etc' is not a path below the workspace, without . and .."),
        ("~/x", "'~/x' is not a path below the workspace, without . and .."),
        ("../x", "'../x' is not a path below the workspace, without . and .."),
        ("a/./b", "'a/./b' is not a path below the workspace, without . and .."),
        ("a//b", "'a//b' is not a path below the workspace, without . and .."),
        ("a/", "'a/' is not a path below the workspace, without . and .."),
        ("**/", "'**/' is not a path below the workspace, without . and .."),
        ("**", "'**' has ** elsewhere than at its beginning or end, between slashes"),
        ("a/**/b", "'a/**/b' has ** elsewhere than at its beginning or end, between slashes"),
        ("a**", "'a**' has ** elsewhere than at its beginning or end, between slashes"),
        ("**/*.py", "'**/*.py' has a wildcard after **/, where only a path may be"),
        ("a\\nb", "'a\\nb' contains a control character"),
        ("x" * 201, f"'{'x' * 200}'... has more than 200 characters"),
    ],
)
@pytest.mark.parametrize("key", ["protected", "unprotected"])
def test_anything_else_is_refused(tmp_path: Path, key: str, rule: str, why: str) -> None:
    told = failure(tmp_path, user=f'{key} = ["{rule}"]')
    assert told == f"/user.toml, line 2: sandbox.{key}: {why}; {EXAMPLES}"


@pytest.mark.parametrize("key", ["protected", "unprotected"])
def test_a_file_names_a_limited_number_of_paths(tmp_path: Path, key: str) -> None:
    def rules(count: int) -> str:
        return f"{key} = {[str(number) for number in range(count)]}"

    assert len(getattr(loaded(tmp_path, system=rules(50), user=rules(50)).settings.sandbox, key)) in {50, 100}
    told = f"/user.toml, line 2: sandbox.{key}: there are 51 entries, and at most 50 are allowed in a file"
    assert failure(tmp_path, user=rules(51)) == told
