"""The data of the recipes, and what it may not say."""

import copy
import tomllib
from importlib.resources import files

import pytest
from pydantic import ValidationError

from paddock.engines.programs.recipe import HELLO_OUTPUT, no_runtime, recipes
from paddock.model.program import RUNTIMES
from paddock.policy.settings.recipes import Recipe


def entry(name, **changes):
    data = tomllib.loads((files("paddock.engines.programs") / "recipes.toml").read_text())[name]
    return {"name": name, **copy.deepcopy(data), **changes}


def test_every_recipe_has_its_own_suffix_and_says_how_to_get_it():
    suffixes = [suffix for recipe in recipes().values() for suffix in recipe.extensions]
    assert len(suffixes) == len(set(suffixes))
    for recipe in recipes().values():
        assert all(choice.packages for choice in recipe.install)
        assert recipe.install or recipe.elsewhere
        assert HELLO_OUTPUT in recipe.hello, recipe.name


def test_each_recipe_is_what_the_whole_file_says():
    data = tomllib.loads((files("paddock.engines.programs") / "recipes.toml").read_text())
    assert dict(recipes()) == {name: Recipe.model_validate({"name": name, **data[name]}) for name in data}
    assert list(recipes()) == list(data)


def test_recipes_cannot_be_changed():
    with pytest.raises(TypeError):
        recipes()["node"] = recipes()["python"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": ["{executable}", "{sauce}"]}, "no placeholder is called sauce"),
        ({"prefixes": ["{scratch}"]}, "no placeholder is called scratch"),
        ({"compile": ["cc", "{source}"]}, "what is compiled must be run, and nothing else"),
        ({"run": ["{output}"]}, "what is compiled must be run, and nothing else"),
        ({"executables": []}, "at least 1 item"),
        ({"executables": ["../sh"]}, "should match pattern"),
        ({"version": {"argv": ["x"], "pattern": "no group"}}, "needs a group"),
        ({"surprise": 1}, "Extra inputs are not permitted"),
    ],
)
def test_a_way_that_makes_no_sense_is_refused(change, message):
    data = entry("shell")
    data["variant"] = [{**data["variant"][0], **change}]
    with pytest.raises(ValidationError, match=message):
        Recipe.model_validate(data)


@pytest.mark.parametrize(
    "change", [{"extensions": ["sh"]}, {"style": "fast"}, {"hello": ""}, {"variant": []}]
)
def test_a_recipe_that_makes_no_sense_is_refused(change):
    with pytest.raises(ValidationError):
        Recipe.model_validate(entry("shell", **change))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("javascript", "node"),
        ("JavaScrpt", "node"),
        ("golang", "go"),
        ("C#", "csharp"),
        ("bash", "shell"),
        ("py", "python"),
        ("deno", "typescript"),
    ],
)
def test_other_names_of_runtimes_are_known(name, meant):
    assert no_runtime(name) == f"there is no runtime {name}; did you mean {meant}?"


def test_a_runtime_that_is_like_none_is_told_those_there_are():
    assert no_runtime("cobol") == f"there is no runtime cobol; there are {', '.join(RUNTIMES)}"
