"""Names of languages: one table, in which each name means one runtime."""

import pytest

from paddock.gate.batch.program import Program
from paddock.model.languages import ALIASES, read_guest_language, read_language
from paddock.model.program import RUNTIMES
from paddock.model.request import RuntimeRun
from paddock.policy.settings.rules import Rule


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("bash", "shell"),
        ("sh", "shell"),
        ("nodejs", "node"),
        ("javascript", "node"),
        ("JavaScript", "node"),
        ("python3", "python"),
        ("py", "python"),
        ("Python", "python"),
        ("c++", "cpp"),
        ("C#", "csharp"),
        ("golang", "go"),
        ("ts", "typescript"),
        ("R", "r"),
        ("lua", "lua"),
        ("python", "python"),
    ],
)
def test_a_name_is_read_as_its_runtime_on_every_surface(name: str, runtime: str) -> None:
    assert read_language(name) == runtime
    assert RuntimeRun(runtime=name, code="1").runtime == runtime
    assert Program(language=name, code="1").language == runtime
    assert Rule(effect="deny", runtime=name).runtime == runtime


def test_each_alias_means_a_runtime_and_is_none() -> None:
    assert set(ALIASES.values()) <= set(RUNTIMES)
    assert not set(ALIASES) & set(RUNTIMES)


def test_the_shell_needs_code_under_each_of_its_names() -> None:
    for name in ("shell", "bash", "SH"):
        with pytest.raises(ValueError, match="Shell runtime requires the code parameter"):
            RuntimeRun(runtime=name, args=("-c", "id"))


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("javascript", "javascript"),
        ("JS", "javascript"),
        ("ts", "typescript"),
        ("node", None),
        ("nodejs", None),
    ],
)
def test_the_guest_has_the_names_of_its_languages_where_it_is_beside_the_runtimes(
    name: str, language: str | None
) -> None:
    assert read_guest_language(name) == language
