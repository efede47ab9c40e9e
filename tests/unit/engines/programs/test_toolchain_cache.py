"""A toolchain that was found is taken again until something changes that a search would see."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from paddock.engines.programs import toolchain_cache as room
from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.toolchain import MissingToolchain
from paddock.engines.programs.toolchain_cache import Toolchains


@pytest.fixture
def shop():
    """A place that everybody can reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


@pytest.fixture
def searches(monkeypatch):
    """What was searched for, in order."""
    told = []
    search = room.find_first

    def spy(recipe, *rest):
        told.append(recipe.name)
        return search(recipe, *rest)

    monkeypatch.setattr(room, "find_first", spy)
    return told


def program(path, text="\x7fELF"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class Shop:
    """Looks for a shell in the folders of a PATH that may change."""

    def __init__(self, *folders):
        self.environ = {"PATH": os.pathsep.join(map(str, folders))}
        self.toolchains = Toolchains(self.environ)

    def look(self, names=None, untrusted=()):
        return asyncio.run(
            self.toolchains.find(recipes()["shell"], user=None, untrusted=untrusted, names=names)
        )


def test_what_was_found_is_not_searched_for_again(shop, searches):
    bash = program(shop / "bash")
    place = Shop(shop)
    assert place.look().executable == bash
    assert place.look() is place.look()
    assert searches == ["shell"]


@pytest.mark.parametrize("change", ["replaced", "rewritten", "removed", "closed", "preceded", "path"])
def test_a_change_that_a_search_would_see_is_seen(shop, searches, change):
    bash, first = program(shop / "b" / "bash"), shop / "a" / "bash"
    place = Shop(shop / "a", shop / "b")
    before = place.look()
    assert before.executable == bash
    match change:
        case "replaced":
            program(shop / "new", "\x7fELF").replace(bash)
        case "rewritten":
            bash.write_text("\x7fELF and more")
        case "removed":
            bash.unlink()
        case "closed":
            bash.chmod(0o644)
        case "preceded":
            program(first)
        case "path":
            place.environ["PATH"] = str(shop / "a")
    after = place.look()
    assert searches == ["shell", "shell"]
    if change in {"replaced", "rewritten"}:
        assert (after.executable, after.identity != before.identity) == (bash, True)
    elif change == "preceded":
        assert after.executable == first
    else:
        assert isinstance(after, MissingToolchain)


def test_what_a_search_would_not_come_to_is_not_looked_at(shop, searches):
    """Each program waits for these looks, and PATH may be long."""
    bash = program(shop / "b" / "bash")
    place = Shop(shop / "a", shop / "b", shop / "c")
    assert place.look().executable == bash
    program(shop / "c" / "bash")
    assert place.look().executable == bash
    assert searches == ["shell"]
    [known] = place.toolchains._known.values()
    assert {path for path in known.seen if path.startswith(str(shop))} == {
        *(f"{shop}/{path}" for path in ("a/", "b/", "b/bash")),
        str(shop),
    }


def test_what_is_installed_beside_paddock_comes_last_and_is_seen_where_a_search_comes_to_it(
    shop, searches, monkeypatch
):
    monkeypatch.setattr(room.directories, "list_search_directories", lambda _: (shop / "installed",))
    place = Shop(shop / "a", shop / "b")
    sh = program(shop / "b" / "sh")
    assert place.look().executable == sh  # bash would be taken first, and is nowhere
    bash = program(shop / "installed" / "node_modules" / "some" / "bin" / "bash")
    assert place.look().executable == bash
    first = program(shop / "installed" / "node_modules" / "another" / "bin" / "bash")
    assert place.look().executable == first
    program(shop / "a" / "bash")
    assert place.look().executable == shop / "a" / "bash"
    assert searches == ["shell"] * 4
    program(shop / "installed" / "node_modules" / "a" / "bin" / "bash")
    place.look()
    assert searches == ["shell"] * 4


def test_what_is_missing_is_looked_for_each_time(shop, searches):
    place = Shop(shop)
    assert isinstance(place.look(), MissingToolchain)
    bash = program(shop / "bash")
    assert place.look().executable == bash


def test_what_one_request_may_use_is_not_what_another_gets(shop, searches):
    bash, sh = program(shop / "bash"), program(shop / "sh")
    place = Shop(shop)
    assert place.look().executable == bash
    assert place.look(("sh",)).executable == sh
    assert place.look(()).reason == "policy allows no executable that can run it"
    assert isinstance(place.look(untrusted=(shop,)), MissingToolchain)
    assert place.look().executable == bash


def test_a_warm_start_that_is_made_meanwhile_is_used(shop, monkeypatch):
    monkeypatch.setattr(room.directories, "warm", lambda _: shop / "warm")
    program(shop / "go" / "bin" / "go")
    toolchains = Toolchains({"PATH": str(shop / "go" / "bin")})

    def look():
        return asyncio.run(toolchains.find(recipes()["go"], user=None, untrusted=()))

    cold = look()
    assert "warm" not in cold.placeholders
    made = shop / "warm" / "go" / cold.identity
    made.mkdir(parents=True)
    assert look().placeholders["warm"] == str(made)


def test_only_so_many_are_remembered(shop, searches, monkeypatch):
    monkeypatch.setattr(room, "_MAX_TOOLCHAINS", 1)
    program(shop / "bash")
    program(shop / "sh")
    place = Shop(shop)
    for names in (("bash",), ("sh",), ("bash",)):
        place.look(names)
    assert searches == ["shell"] * 3
