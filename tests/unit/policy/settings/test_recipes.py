"""Languages that settings add: who may, what they may say, and what is said about mistakes."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from paddock.engines.programs.recipe import executables, recipes
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import RuntimeSettings, Settings

AWK = """\
[runtimes.recipes.awk]
title = "AWK"
extensions = [".awk"]
hello = 'BEGIN { print "hello from paddock" }'

[[runtimes.recipes.awk.variant]]
executables = ["mawk"]
run = ["{executable}", "-f", "{source}"]
version = { argv = ["{executable}", "-W", "version"], pattern = 'awk (\\S+)' }
"""


def load_runtimes(tmp_path: Path, flags: Mapping[str, object] | None = None, **texts: str) -> RuntimeSettings:
    (tmp_path / "w").mkdir(exist_ok=True)
    for name, text in texts.items():
        file = tmp_path / "w" / "paddock.toml" if name == "workspace" else tmp_path / f"{name}.toml"
        file.write_text(text)
    merged = load(
        tmp_path / "w",
        environment={},
        flags=flags,
        system=tmp_path / "system.toml",
        user=tmp_path / "user.toml",
    )
    return merged.settings.runtimes


def failure(tmp_path: Path, flags: Mapping[str, object] | None = None, **texts: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_runtimes(tmp_path, flags, **texts)
    return str(caught.value).replace(str(tmp_path), "")


def test_files_of_user_and_system_add_languages(tmp_path: Path) -> None:
    found = load_runtimes(tmp_path, user=AWK, system=AWK.replace("awk", "bwk"))
    assert found.languages[-3:] == ("elixir", "bwk", "awk")
    assert found.recipes["awk"].title == "AWK"
    assert list(recipes(found.recipes))[-2:] == ["bwk", "awk"]
    assert "awk" not in recipes()
    assert found.allows("awk")
    assert executables("awk", found.recipes).compatible == {"mawk"}
    assert executables("awk").candidates == ()


def test_variants_have_a_deprecated_name(tmp_path: Path) -> None:
    old = AWK.replace("awk.variant", "awk.way")
    with pytest.warns(FutureWarning) as warned:
        found = load_runtimes(tmp_path, user=old)
    assert {str(each.message) for each in warned} == {
        "`runtimes.recipes.awk.way` is deprecated; write `runtimes.recipes.awk.variant`"
    }
    assert found.recipes == load_runtimes(tmp_path, user=AWK).recipes
    both = AWK + old.partition("\n\n")[2]
    assert failure(tmp_path, user=both) == (
        "/user.toml, line 1: runtimes.recipes.awk: `way` is the deprecated name of `variant`, which is also set; "
        "remove `way`"
    )


def test_a_workspace_adds_none(tmp_path: Path) -> None:
    assert failure(tmp_path, workspace=f"\n{AWK}") == (
        "/w/paddock.toml, line 2: a workspace may not set runtimes.recipes; set it in /user.toml"
    )


def test_what_a_workspace_says_of_one_is_not_even_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []
    real = re.compile
    monkeypatch.setattr(re, "compile", lambda text, *flags: compiled.append(text) or real(text, *flags))
    hostile = AWK.replace("'awk (\\S+)'", "'((((a{1,99}){1,99}){1,99}){1,99})'")
    assert failure(tmp_path, workspace=hostile).endswith(
        "a workspace may not set runtimes.recipes; set it in /user.toml"
    )
    assert [text for text in compiled if "{1,99}" in str(text)] == []
    for wrong in ("[runtimes]\nrecipes = 3", "[runtimes.recipes.node]\n", "[[runtimes.recipes]]\nx = 1"):
        assert "a workspace may not set runtimes.recipes; set it in /user.toml" in failure(
            tmp_path, workspace=wrong
        )


def test_variables_and_flags_add_none(tmp_path: Path) -> None:
    told = "--set runtimes.recipes: this can only be set in a settings file"
    assert failure(tmp_path, flags={"runtimes": {"recipes": {}}}) == told
    with pytest.raises(ConfigurationError, match="PADDOCK_RUNTIMES_RECIPES: unknown variable"):
        load(tmp_path, environment={"PADDOCK_RUNTIMES_RECIPES": "{}"}, user=tmp_path / "none.toml")


def test_a_language_is_defined_once(tmp_path: Path) -> None:
    assert failure(tmp_path, user=AWK, system=AWK) == (
        "/user.toml, line 1: runtimes.recipes.awk is defined by /system.toml, line 1 already; choose another name"
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("recipes.awk", "recipes.perl"),
            "line 1: runtimes.recipes.perl: the name perl is built in, and would mean two things; choose another name",
        ),
        (
            ("recipes.awk", "recipes.auto"),
            "line 1: runtimes.recipes.auto: the name auto is built in, and would mean two things; choose another name",
        ),
        (
            ("recipes.awk", "recipes.AWK"),
            "line 1: runtimes.recipes.AWK: a name begins with a letter and has up to 32 of a-z, 0-9, _ and -",
        ),
        (
            ('title = "AWK"', 'title = "AWK"\nname = "other"'),
            "line 1: runtimes.recipes.awk: remove `name`: it is the last word of the table's own name",
        ),
        (('title = "AWK"', ""), "line 1: `runtimes.recipes.awk.title` is missing"),
        (('title = "AWK"', "title = 3"), "line 2: runtimes.recipes.awk.title must be a text, not 3"),
        (
            ('[".awk"]', '["awk"]'),
            r'line 3: runtimes.recipes.awk.extensions must be a text that matches ^\.[A-Za-z0-9]+$, not the text "awk"',
        ),
        (('[".awk"]', "[]"), "line 3: runtimes.recipes.awk.extensions needs at least 1 item"),
        (
            ("extensions", "extension"),
            "line 1: `runtimes.recipes.awk.extensions` is missing\n"
            "/user.toml, line 3: unknown key `runtimes.recipes.awk.extension`; did you mean "
            "`runtimes.recipes.awk.extensions`?",
        ),
        (
            ("executables =", "executable ="),
            "line 6: `runtimes.recipes.awk.variant.executables` is missing\n"
            "/user.toml, line 7: unknown key `runtimes.recipes.awk.variant.executable`; did you mean "
            "`runtimes.recipes.awk.variant.executables`?",
        ),
        (
            ("{source}", "{sauce}"),
            "line 1: runtimes.recipes.awk: mawk: no placeholder is called sauce",
        ),
        (
            ("(\\S+)", "\\S+"),
            "line 9: runtimes.recipes.awk.variant.version.pattern: the pattern of a version needs a group",
        ),
        (
            ('["mawk"]', '["/bin/mawk"]'),
            "line 7: runtimes.recipes.awk.variant.executables must be a text that matches ^[A-Za-z][A-Za-z0-9+.-]*$, not "
            'the text "/bin/mawk"',
        ),
    ],
)
def test_mistakes_are_told_with_file_line_and_key(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    assert failure(tmp_path, user=AWK.replace(*change)) == f"/user.toml, {told}"


@pytest.mark.parametrize("name", ["../up", "/etc/cron.d/x", "a/b", "", ".", ".hidden"])
def test_files_beside_a_program_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    files = f'{AWK}files = {{ "{name}" = "x" }}\n'
    assert "runtimes.recipes.awk.variant.files" in failure(tmp_path, user=files)


def test_a_table_is_wanted(tmp_path: Path) -> None:
    assert failure(tmp_path, user="[runtimes]\nrecipes = 3") == (
        "/user.toml, line 2: runtimes.recipes must be a table, not 3"
    )
    assert failure(tmp_path, user="[runtimes.recipes]\nawk = 3") == (
        "/user.toml, line 2: runtimes.recipes.awk: it must be a table, with the keys of engines/programs/recipes.toml"
    )


def test_all_faults_of_all_languages_are_told(tmp_path: Path) -> None:
    text = AWK.replace('title = "AWK"', "") + "[runtimes.recipes.node]\n"
    assert failure(tmp_path, user=text).splitlines() == [
        "/user.toml, line 1: `runtimes.recipes.awk.title` is missing",
        "/user.toml, line 10: runtimes.recipes.node: the name node is built in, and would mean two things; choose another "
        "name",
    ]


def test_a_list_of_allowed_runtimes_may_name_it_wherever_it_is_defined(tmp_path: Path) -> None:
    assert load_runtimes(tmp_path, user=AWK, workspace='[runtimes]\nallowed = ["awk"]').allowed == ("awk",)
    assert load_runtimes(tmp_path, {"runtimes.allowed": "awk, node"}, user=AWK).allowed == ("awk", "node")


def test_an_unknown_runtime_is_not_allowed(tmp_path: Path) -> None:
    assert failure(tmp_path, user='[runtimes]\nallowed = ["pyton"]') == (
        "/user.toml, line 2: runtimes.allowed: there is no runtime pyton; did you mean `python`?"
    )
    assert failure(tmp_path, {"runtimes.allowed": "awk"}, user="") == (
        "--set runtimes.allowed: runtimes.allowed: there is no runtime awk"
    )


def test_what_the_system_allows_holds_for_added_languages(tmp_path: Path) -> None:
    narrow = '[runtimes]\nallowed = ["python"]'
    found = load_runtimes(tmp_path, system=narrow, user=AWK)
    assert (found.allows("awk"), found.allowed) == (False, ("python",))
    wide = f'[runtimes]\nallowed = ["python", "awk"]\n{AWK}'
    assert "allows more than" in failure(tmp_path, system=narrow, user=wide)
    assert "allows more than" in failure(tmp_path, system=narrow, user='[runtimes]\nallowed = ["*"]')


def test_settings_made_in_python_hold_to_the_same(tmp_path: Path) -> None:
    entry = load_runtimes(tmp_path, user=AWK).recipes["awk"]
    assert Settings(runtimes={"recipes": {"awk": entry}}).runtimes.languages[-1] == "awk"
    with pytest.raises(ValidationError, match="the name node is built in"):
        Settings(runtimes={"recipes": {"node": {}}})
    with pytest.raises(ValidationError, match="title"):
        Settings(runtimes={"recipes": {"awk": {"extensions": [".awk"]}}})
