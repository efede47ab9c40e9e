"""Tokens and their file: what is a token, what is kept of it, and what a damaged file does."""

import hashlib
import json
import os
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.errors import ConfigurationError
from paddock.policy.settings.serve import ServeToken
from paddock.surfaces.tenants.token_file import FILE_NAME, StoredToken, TokenFile
from paddock.surfaces.tenants.tokens import MAX_TOKEN_CHARS, PREFIX, find_token, hash_token, make_token

CREATED = datetime(2026, 1, 31, tzinfo=UTC)
REMEDY = (
    "no token is accepted until it is repaired: restore it from a backup, or remove it and make new tokens with "
    "`paddock serve token new`"
)


def entry(name: str, token: str, **fields: Any) -> StoredToken:
    return StoredToken(name=name, sha256=hash_token(token), created=CREATED, **fields)


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "serve")


def test_a_token_has_256_random_bits_and_no_two_are_alike() -> None:
    made = {make_token() for _ in range(1000)}
    assert len(made) == 1000
    assert {(each[: len(PREFIX)], len(each)) for each in made} == {("pdk_", 47)}


def test_a_hash_is_the_sha256_of_the_whole_text() -> None:
    token = make_token()
    assert hash_token(token) == hashlib.sha256(token.encode()).hexdigest()


@given(st.text())
def test_no_text_but_the_token_finds_its_entry(text: str) -> None:
    token = "pdk_known"
    known = [ServeToken(name="other", sha256="0" * 64), ServeToken(name="alice", sha256=hash_token(token))]
    assert find_token(known, text) == (known[1] if text == token else None)


@given(
    st.text(max_size=3), st.text(max_size=3), st.integers(0, 46), st.sampled_from(["", "A", " ", "\0", "é"])
)
def test_a_changed_token_is_none(before: str, after: str, place: int, other: str) -> None:
    token = make_token()
    changed = before + token[:place] + other + token[place + 1 :] + after
    found = find_token([ServeToken(name="alice", sha256=hash_token(token))], changed)
    assert (found is not None) == (changed == token)


@pytest.mark.parametrize(
    "text",
    ["", "\ud800", "é" * 8, "x" * (MAX_TOKEN_CHARS + 1)],
    ids=["empty", "surrogate", "not ASCII", "long"],
)
def test_what_no_token_can_be_has_no_hash(text: str) -> None:
    assert hash_token(text) == ""
    assert find_token([ServeToken(name="alice", sha256="0" * 64)], text) is None


@given(st.text(max_size=70))
def test_a_name_is_plain(name: str) -> None:
    plain = (
        0 < len(name) <= 64
        and name.isascii()
        and name[0].isalnum()
        and all(c.isalnum() or c in "._@-" for c in name)
    )
    try:
        made = ServeToken(name=name, sha256="0" * 64)
    except ValueError:
        assert not plain
    else:
        assert plain
        assert made.actor_name == f"token:{name}"


def test_the_file_keeps_the_hash_and_never_the_token(file: TokenFile) -> None:
    token = make_token()
    file.add(entry("alice", token, rate=60))
    assert json.loads(file.path.read_bytes()) == {
        "tokens": [
            {"name": "alice", "sha256": hash_token(token), "rate": 60, "created": "2026-01-31T00:00:00Z"}
        ]
    }
    assert token.encode() not in b"".join(each.read_bytes() for each in file.path.parent.iterdir())
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_another_process_sees_what_was_added_and_removed(file: TokenFile) -> None:
    reader = TokenFile(file.path.parent)
    assert reader.read() == ()
    first, second = entry("alice", make_token()), entry("bob", make_token(), actor="alice", approve=True)
    file.add(first)
    assert reader.read() == (first,)
    file.add(second)
    assert reader.read() == (first, second)
    assert file.remove("alice")
    assert reader.read() == (second,)
    assert not file.remove("alice")
    assert reader.read() == (second,)


def test_an_unchanged_file_is_not_parsed_again(file: TokenFile) -> None:
    file.add(entry("alice", make_token()))
    assert file.read() is file.read()


def test_a_name_is_given_once(file: TokenFile) -> None:
    file.add(entry("alice", make_token()))
    with pytest.raises(ConfigurationError) as refused:
        file.add(entry("alice", make_token()))
    assert str(refused.value) == (
        "there is a token alice already; choose another name, or run: paddock serve token revoke alice"
    )


def test_tokens_made_at_the_same_time_are_all_kept(file: TokenFile) -> None:
    names = [f"user-{number}" for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: TokenFile(file.path.parent).add(entry(name, make_token())), names))
    assert sorted(each.name for each in file.read()) == sorted(names)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"tokens": [{"name": "ali', "{path}: cannot be read: "),
        (b"[]", "{path}: is not a JSON object; " + REMEDY),
        (b'{"tokens": [{"name": "alice"}]}', "{path}: was damaged or changed at tokens.0.sha256; " + REMEDY),
        (b'{"tokens": {}, "more": 1}', "{path}: was damaged or changed at tokens; " + REMEDY),
        (b"\xff\xfe", "{path}: cannot be read: "),
    ],
    ids=["cut short", "another kind", "a field is missing", "an unknown field", "not text"],
)
def test_of_a_damaged_file_no_token_is_read(file: TokenFile, content: bytes, why: str) -> None:
    file.add(entry("alice", make_token()))
    file.path.write_bytes(content)
    for use in (file.read, lambda: file.add(entry("bob", make_token())), lambda: file.remove("alice")):
        with pytest.raises(ConfigurationError) as refused:
            use()
        assert str(refused.value).startswith(why.format(path=file.path))
        assert str(refused.value).endswith(REMEDY)
    assert file.path.read_bytes() == content


@given(st.binary(max_size=40), st.data())
def test_no_byte_that_is_lost_or_changed_widens_anything(noise: bytes, data: st.DataObject) -> None:
    """Whatever happens to the file, it is an error, or each of its tokens is one that was there."""
    with tempfile.TemporaryDirectory() as folder:
        file = TokenFile(Path(folder) / "serve")
        known = entry("alice", "pdk_a", rate=5, policy={"runtimes": {"network": "none"}})
        file.add(known)
        content = file.path.read_bytes()
        cut = data.draw(st.integers(0, len(content)))
        file.path.write_bytes(content[:cut] + noise)
        try:
            found = TokenFile(file.path.parent).read()
        except ConfigurationError:
            return
        assert [each for each in found if each != known] == []


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_the_file_is_one_of_ours(file: TokenFile, tmp_path: Path, kind: str) -> None:
    file.path.parent.mkdir(0o700)
    match kind:
        case "link":
            (tmp_path / "other").write_text("{}")
            file.path.symlink_to(tmp_path / "other")
        case "pipe":
            os.mkfifo(file.path)
        case _:
            file.path.mkdir()
    with pytest.raises(ConfigurationError, match=str(file.path)):
        file.read()


def test_two_tokens_never_share_a_hash(file: TokenFile) -> None:
    token = make_token()
    file.add(entry("alice", token))
    known = json.loads(file.path.read_bytes())
    known["tokens"].append({**known["tokens"][0], "name": "bob", "approve": True})
    file.path.write_text(json.dumps(known))
    with pytest.raises(ConfigurationError) as refused:
        file.read()
    assert str(refused.value) == f"{file.path}: has two tokens with one sha256; {REMEDY}"


def test_the_file_is_in_the_directory_of_the_server(file: TokenFile, tmp_path: Path) -> None:
    assert file.path == tmp_path / "serve" / FILE_NAME
