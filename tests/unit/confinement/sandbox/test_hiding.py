"""Which files are found that programs must not read."""

import os
import shutil
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.confinement.sandbox.child import hiding
from paddock.confinement.sandbox.child.hiding import (
    HidingRules,
    find_hidden,
    find_rule,
    holds_private_key,
    holds_token,
    is_hidden,
)
from paddock.confinement.sandbox.child.snapshot import TooLargeError
from paddock.policy.settings.hiding import ALWAYS_SHOWN, DEFAULT_HIDDEN

DEFAULT = HidingRules(DEFAULT_HIDDEN, ALWAYS_SHOWN)
KEY = "-----BEGIN PRIVATE KEY-----\n"


def make(folder, *names, text=KEY):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def find(folder, rules=DEFAULT, granted=()):
    return [os.path.relpath(each.path, folder) for each in find_hidden([str(folder)], rules, granted)]


@pytest.mark.parametrize("hidden", DEFAULT_HIDDEN)
def test_each_rule_finds_its_file_at_any_depth_and_in_any_case(hidden, tmp_path):
    name = hidden.replace("*", "x").removesuffix("/")
    inner = "/inner" if hidden.endswith("/") else ""
    text = "_authToken=x\n" if name == ".npmrc" else KEY
    make(tmp_path, f"a/b/{name}{inner}", f"{name.upper()}{inner}", text=text)
    assert find(tmp_path) == sorted([name.upper(), f"a/b/{name}"])


@pytest.mark.parametrize("shown", ALWAYS_SHOWN)
def test_templates_and_folders_from_elsewhere_are_shown(shown, tmp_path):
    make(tmp_path, f"{shown}.env" if shown.endswith("/") else shown)
    assert find(tmp_path) == []


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("plan.txt", ["a/plan.txt", "plan.txt"]),
        ("/plan.txt", ["plan.txt"]),
        ("a/plan.txt", ["a/plan.txt", "b/a/plan.txt"]),
        ("a/", ["a", "b/a"]),
        ("/b/a/", ["b/a"]),
        ("pl?n.*", ["a/plan.txt", "plan.txt", "plan.y"]),
        ("a", []),
        ("plan.txt/", []),
        ("b/plan.txt", []),
    ],
)
def test_rules_are_names_ends_of_paths_and_whole_paths(rule, names, tmp_path):
    make(tmp_path, "plan.txt", "plan.y", "a/plan.txt", "b/a/other")
    make(tmp_path, *(["b/a/plan.txt"] if "b/a/plan.txt" in names else []))
    assert find(tmp_path, HidingRules((rule,))) == names


def test_the_names_above_the_searched_folder_count(tmp_path):
    make(tmp_path, ".aws/credentials", ".aws/config")
    assert find(tmp_path / ".aws") == ["credentials"]


def test_what_is_shown_is_not_hidden_and_what_is_granted_by_itself_neither(tmp_path):
    make(tmp_path, ".env", "a/.env", "b/.env", "data/.env")
    rules = DEFAULT._replace(shown=(*DEFAULT.shown, "/.env", "data/"))
    assert find(tmp_path, rules, [str(tmp_path / "a" / ".env")]) == ["b/.env"]


def test_links_lead_to_what_is_hidden_within_the_folder(tmp_path):
    make(tmp_path, "work/real", "work/keys/id", "work/second", "outside")
    (tmp_path / "work" / "second").unlink()
    (tmp_path / "work" / "second").hardlink_to(tmp_path / "work" / "real")
    for link, target in {
        ".env": "real",
        ".ssh": "keys",
        ".netrc": "../outside",
        ".pgpass": "missing",
        "id_rsa": "id_rsa",
    }.items():
        (tmp_path / "work" / link).symlink_to(target)
    assert find(tmp_path / "work") == ["keys", "real", "second"]


CONTENTS = {
    "-----BEGIN PRIVATE KEY-----\n": True,
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n": True,
    "-----BEGIN RSA PRIVATE KEY-----\n": True,
    "-----BEGIN OPENSSH PRIVATE KEY-----\n": True,
    "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n": True,
    "-----BEGIN CERTIFICATE-----\n": False,
    "-----BEGIN PUBLIC KEY-----\n": False,
    "": False,
    "0\x82\x04\xa4\x02\x01\x00": True,
    "0w\x02\x01\x01": True,
    "0\x82\x03\x0d0\x82": False,
    "PK\x03\x04": False,
}


def test_other_names_of_a_hidden_file_are_found_in_shown_folders(tmp_path):
    make(tmp_path, ".env", "node_modules/own/.env", "node_modules/own/index.js")
    for folder in (".git", "node_modules/own/deep"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "copy").hardlink_to(tmp_path / ".env")
    assert find(tmp_path) == [".env", ".git/copy", "node_modules/own/deep/copy"]


def test_names_in_shown_folders_count_if_a_hidden_file_has_a_name_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(hiding, "MAX_NAMES", 50)
    make(tmp_path, "work/.env", *(f"work/node_modules/{name}" for name in string.ascii_letters))
    assert find(tmp_path / "work") == [".env"]
    (tmp_path / "outside").hardlink_to(tmp_path / "work" / ".env")
    with pytest.raises(TooLargeError, match="the folder holds more than 50 names"):
        find(tmp_path / "work")


@pytest.mark.parametrize(("content", "expected"), CONTENTS.items())
def test_private_keys_are_known_by_what_they_hold(content, expected, tmp_path):
    assert holds_private_key(content.encode("latin-1")) is expected
    (tmp_path / "x.pem").write_bytes(content.encode("latin-1"))
    assert find(tmp_path) == (["x.pem"] if expected else [])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"registry=https://registry.example.com/\n", False),
        (b"//registry.example.com/:_authToken=abc\n", True),
        (b"//registry.example.com/:_authToken=${NPM_TOKEN}\n", False),
        (b"; //registry.example.com/:_authToken=abc\n", False),
        (b"_auth = abc\n", True),
        (b"//registry.example.com/:_password=abc\n", True),
        (b"always-auth=true\n", False),
    ],
)
def test_settings_of_npm_are_hidden_for_their_token(content, expected):
    assert holds_token(content) is expected


def test_a_key_that_ends_beyond_the_bound_is_hidden_and_a_long_other_file_is_not(tmp_path):
    start = "-----BEGIN CERTIFICATE-----\n"
    make(tmp_path, "long.pem", text=start + "x" * hiding.CONTENT_BYTES)
    make(tmp_path, "long.key", text="x" * (hiding.CONTENT_BYTES + 1))
    assert find(tmp_path) == ["long.pem"]


def test_a_pipe_named_as_a_key_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.pem")
    os.mkfifo(tmp_path / ".env")
    assert find(tmp_path) == [".env"]


def test_a_file_that_is_made_moved_or_removed_is_noticed_at_the_next_search(tmp_path):
    make(tmp_path, "a/b/other", "c/other")
    long_ago = 1_000_000_000
    for folder in ("a/b", "a", "c", "."):
        os.utime(tmp_path / folder, (long_ago, long_ago))
    assert find(tmp_path) == []
    make(tmp_path, "a/b/.env")
    os.utime(
        tmp_path / "a" / "b", (long_ago, long_ago)
    )  # a program can set this time, but not that of the change
    assert find(tmp_path) == ["a/b/.env"]
    (tmp_path / "a").rename(tmp_path / "d")
    assert find(tmp_path) == ["d/b/.env"]
    (tmp_path / "d" / "b" / ".env").rename(tmp_path / "c" / ".netrc")
    assert find(tmp_path) == ["c/.netrc"]
    (tmp_path / "c" / ".netrc").unlink()
    assert find(tmp_path) == []


def test_the_content_of_a_file_counts_as_it_is_now(tmp_path):
    make(tmp_path, "x.pem", text="-----BEGIN CERTIFICATE-----\n")
    assert find(tmp_path) == []
    make(tmp_path, "x.pem")
    assert find(tmp_path) == ["x.pem"]


def test_too_many_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(hiding, "MAX_NAMES", 20)
    make(tmp_path, *(f"{number}.txt" for number in range(12)))
    assert find(tmp_path) == []
    make(tmp_path, "more.txt")
    told = (
        f"the files that workspace.hide names cannot be found in {tmp_path}: the folder holds more than 20 names; "
        "work in a smaller folder, or name folders that need not be searched in workspace.show of the user's settings"
    )
    with pytest.raises(TooLargeError) as caught:
        find(tmp_path)
    assert str(caught.value) == told


def test_a_rule_with_several_names_holds_where_one_of_them_is_a_link(tmp_path):
    make(
        tmp_path,
        "dot/aws/credentials",
        "dot/aws/config",
        "dot/config/gh/hosts.yml",
        "dot/k/config",
        "s/a.txt",
        "s/b",
    )
    links = {
        ".aws": "dot/aws",
        "home/.CONFIG": "../dot/config",
        ".kube": str(tmp_path / "dot" / "k"),
        "vault": "s",
    }
    for link, target in links.items():
        (tmp_path / link).parent.mkdir(exist_ok=True)
        (tmp_path / link).symlink_to(target)
    rules = DEFAULT._replace(hidden=(*DEFAULT.hidden, "/vault/*.txt"))
    assert find(tmp_path, rules) == [
        "dot/aws/credentials",
        "dot/config/gh/hosts.yml",
        "dot/k/config",
        "s/a.txt",
    ]


@pytest.mark.parametrize(
    "target", [".env", "nowhere", "x" * 256, "/".join(["x" * 200] * 20), "file/below", "/proc/1/fd/x"]
)
def test_a_link_that_leads_nowhere_is_passed_over(target, tmp_path):
    make(tmp_path, "file", "a/.env")
    (tmp_path / ".env").symlink_to(target)
    (tmp_path / ".aws").symlink_to(target)
    assert find(tmp_path) == ["a/.env"]


def test_without_rules_nothing_is_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(hiding, "MAX_NAMES", 0)
    make(tmp_path, ".env")
    assert find(tmp_path, HidingRules((), (".env",))) == []


def test_links_to_a_large_folder_count_as_its_names(tmp_path, monkeypatch):
    monkeypatch.setattr(hiding, "MAX_NAMES", 200)
    make(tmp_path, *(f"large/{number}" for number in range(60)))
    rules = HidingRules(("vault/*.txt",))
    assert find(tmp_path, rules) == []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "vault").symlink_to("../large")
    with pytest.raises(TooLargeError, match="the folder holds more than 200 names"):
        find(tmp_path, rules)


def test_folders_whose_paths_are_too_long_to_search_are_refused(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    with pytest.raises(
        TooLargeError, match=f"cannot be found in {tmp_path}: folders are nested too deep in d+;"
    ):
        find(tmp_path)
    shutil.rmtree(tmp_path)


def test_a_folder_that_became_a_link_is_not_searched(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        find(tmp_path / "link")


NAMES = st.sampled_from(
    [".env", ".ENV", "node_modules", ".ssh", "a", ".aws", "credentials", "x.pem", ".env.sample"]
)


@given(st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=6))
def test_the_search_and_the_question_about_one_file_agree(tmp_path_factory, paths):
    top = tmp_path_factory.mktemp("top")
    for parts in paths:
        path = top.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.write_text(KEY)
        except (FileExistsError, NotADirectoryError):
            continue
    found = {each.path for each in find_hidden([str(top)], DEFAULT)}
    for folder, _, names in os.walk(top):
        for name in names:
            path = f"{folder}/{name}"
            above = {path[:end] for end in range(len(path) + 1) if path[end:][:1] in {"/", ""}}
            assert is_hidden(path, str(top), DEFAULT) is bool(above & found), path


@given(
    st.lists(st.text(string.printable, max_size=20), max_size=4),
    st.text(string.printable, min_size=1, max_size=20),
)
def test_no_rule_fails_at_any_name(tmp_path_factory, rules, name):
    top = str(tmp_path_factory.getbasetemp())
    assert is_hidden(f"{top}/{name}", top, HidingRules(tuple(filter(None, rules)))) in {True, False}


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".env", ".env"),
        ("deep/.ENV", ".env"),
        (".env.example", ""),
        (".ssh", ".ssh/"),
        ("a/.ssh/known_hosts", ".ssh/"),
        ("a/.aws/credentials", ".aws/credentials"),
        ("server.pem", "*.pem"),
        ("node_modules/x/.env", ""),
        ("src/main.py", ""),
    ],
)
def test_the_rule_that_hides_a_path_is_found_without_the_file(path, rule):
    assert find_rule("/home/me/work", path, DEFAULT) == rule
