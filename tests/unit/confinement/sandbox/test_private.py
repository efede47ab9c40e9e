"""Which of Paddock's own directories lie in what is granted, and what stands for the rest of it."""

import os
import string
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from paddock.confinement.sandbox import state_paths
from paddock.confinement.sandbox.child import partial_grants

NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=2)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


def test_what_is_in_a_directory_is_told_by_whole_names():
    assert state_paths.is_below("/a/b", "/a")
    assert state_paths.is_below("/a", "/a")
    assert not state_paths.is_below("/ab", "/a")


def test_only_the_outermost_ones_below_a_directory_are_left_out():
    own = ("/h/state", "/h/state/audit", "/h/cache", "/other")
    assert state_paths.within(own, ["/h"]) == ("/h/cache", "/h/state")
    assert state_paths.within(own, ["/h/state"]) == ("/h/state/audit",)
    assert state_paths.within(own, ["/h/cache", "/srv"]) == ()
    assert state_paths.within((), ["/h"]) == ()


@given(st.lists(PATHS, max_size=5), st.lists(PATHS, max_size=3))
def test_each_of_them_that_is_granted_from_above_is_left_out(own: list[str], folders: list[str]):
    hidden = state_paths.within(own, folders)
    for path in own:
        above = any(path.startswith(f"{folder}/") for folder in folders)
        assert above == any(state_paths.is_below(path, each) for each in hidden)
    assert all(any(each.startswith(f"{folder}/") for folder in folders) for each in hidden)


def test_both_the_names_and_what_they_lead_to_are_known(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    root = os.path.realpath(tmp_path)
    assert state_paths.list_own_directories([tmp_path / "link" / "state"]) == (
        f"{tmp_path}/link/state",
        f"{root}/real/state",
    )
    assert state_paths.find_link((f"{root}/link/state",), root) == f"{root}/link"
    assert state_paths.find_link((f"{root}/real/state",), root) == ""
    assert state_paths.keeper((f"{root}/real",), f"{root}/real/state") == f"{root}/real"
    assert state_paths.keeper((f"{root}/real",), f"{root}/reality") == ""


def test_the_way_leads_from_the_innermost_writable_directory_as_far_as_a_user_may_go(tmp_path: Path):
    root = os.path.realpath(tmp_path)
    hidden = f"{root}/a/b/c/state"
    Path(hidden).mkdir(parents=True)
    assert [*state_paths.list_parents([hidden], [root], os.geteuid())] == [
        f"{root}/a",
        f"{root}/a/b",
        f"{root}/a/b/c",
    ]
    assert [*state_paths.list_parents([hidden], [root, f"{root}/a/b"], os.geteuid())] == [f"{root}/a/b/c"]
    assert [*state_paths.list_parents([hidden], ["/elsewhere"], os.geteuid())] == []
    Path(root, "a/b").chmod(0o600)
    try:
        assert [*state_paths.list_parents([hidden], [root], os.geteuid())] == [f"{root}/a", f"{root}/a/b"]
    finally:
        Path(root, "a/b").chmod(0o700)


def test_what_is_missing_is_made_only_where_a_program_could_make_it(tmp_path: Path):
    root = os.path.realpath(tmp_path)
    hidden = [f"{root}/ws/.config/paddock", f"{root}/read/.config/paddock"]
    made = state_paths.list_hidden_paths(hidden, [f"{root}/ws"], os.geteuid())
    assert (made, Path(hidden[0]).stat().st_mode & 0o777) == ([hidden[0]], 0o700)
    assert not Path(hidden[1]).exists()


def test_pieces_are_all_that_is_no_link_and_not_on_the_way(tmp_path: Path):
    root = os.path.realpath(tmp_path)
    for name in ("home/.local/state/paddock", "home/.local/bin", "home/project", "lib"):
        Path(root, name).mkdir(parents=True)
    Path(root, "home/file").touch()
    Path(root, "home/link").symlink_to(".local/state/paddock")
    found = (f"{root}/home/.local/bin", f"{root}/home/file", f"{root}/home/project")
    assert partial_grants.pieces(
        [f"{root}/lib", f"{root}/home"], [f"{root}/home/.local/state/paddock"]
    ) == partial_grants.PartialGrant(
        granted=(f"{root}/lib",),
        found=found,
        listed=(f"{root}/home", f"{root}/home/.local", f"{root}/home/.local/state"),
    )
    assert partial_grants.pieces([f"{root}/lib"], []) == partial_grants.PartialGrant(granted=(f"{root}/lib",))
