"""What is made once for later starts. Real ones are made for the tests of real toolchains."""

import os
from pathlib import Path

import pytest

from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.toolchain import ToolchainSearch, find
from paddock.engines.programs.warm import warm
from paddock.model.errors import EngineError
from paddock.policy.settings.recipes import WarmCache

SCRIPT = """\
[ -z "$SECRET" ] && mkdir "$1/folder" && cp "$2" "$1/folder/file" && chmod 700 "$1/folder" && chmod 600 "$1/folder/file"
"""


@pytest.fixture
def shell():
    """Return the shell's recipe with a warm start that commands make."""

    def with_commands(*commands):
        recipe = recipes()["shell"]
        [first, *rest] = recipe.variants
        variant = first.model_copy(update={"warm": WarmCache(program=SCRIPT, commands=commands)})
        return recipe.model_copy(update={"variants": (variant, *rest)})

    return with_commands


def test_a_warm_start_is_made_once_whole_and_for_everybody_to_read(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "secret")
    recipe = shell(("{executable}", "{source}", "{warm}", "{source}"))
    search = ToolchainSearch("/usr/bin:/bin", warm=tmp_path)
    cold = find(recipe, search)
    ready = warm(cold, tmp_path)
    assert ready == tmp_path / "shell" / cold.identity
    made = ready / "folder" / "file"
    assert made.read_text() == SCRIPT
    assert (made.stat().st_mode & 0o777, made.parent.stat().st_mode & 0o777) == (0o644, 0o755)
    assert [path.name for path in tmp_path.iterdir()] == ["shell"]
    os.utime(made, ns=(1, 1))
    assert warm(cold, tmp_path) == ready
    assert made.stat().st_mtime_ns == 1
    assert find(recipe, search).placeholders["warm"] == str(ready)


def test_of_what_was_made_for_other_toolchains_the_oldest_goes(shell, tmp_path):
    for made, name in ((8, "newer"), (9, "newest"), (1, "oldest"), (7, "older")):
        other = tmp_path / "shell" / name
        other.mkdir(parents=True)
        os.utime(other, (made, made))
    ready = warm(
        find(shell(("{executable}", "{source}", "{warm}", "{source}")), ToolchainSearch("/bin")), tmp_path
    )
    assert {path.name for path in (tmp_path / "shell").iterdir()} == {ready.name, "newer", "newest"}


def test_what_others_may_write_to_is_not_used(shell, tmp_path):
    recipe = shell(("{executable}", "{source}", "{warm}", "{source}"))
    search = ToolchainSearch("/bin", warm=tmp_path)
    ready = warm(find(recipe, search), tmp_path)
    ready.chmod(0o777)
    assert "warm" not in find(recipe, search).placeholders


def test_a_failed_command_says_why_and_leaves_nothing(shell, tmp_path):
    recipe = shell(("{executable}", "-c", "true"), ("{executable}", "-c", "echo too bad; exit 3"))
    with pytest.raises(EngineError, match=r"^the warm start of Shell cannot be made: too bad$"):
        warm(find(recipe, ToolchainSearch("/bin")), tmp_path)
    assert list((tmp_path / "shell").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["shell"]


def test_a_recipe_without_a_warm_start_needs_none(tmp_path):
    assert warm(find(recipes()["shell"], ToolchainSearch("/bin")), tmp_path) is None
    assert list(Path(tmp_path).iterdir()) == []
