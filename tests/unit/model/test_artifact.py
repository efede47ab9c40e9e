"""Handles and manifests from strangers, and questions that make no sense."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.model.artifact import ArtifactManifest, Handle, OutputQuery, expiry
from paddock.model.errors import InvalidHandle

HANDLE = "runtime-my-repo-1774356909696-fc5aa1f22e33e17c"


def test_the_handle_of_the_seed_is_one() -> None:
    parsed = Handle.parse(HANDLE)
    assert parsed == Handle(repo="my-repo", epoch_ms=1774356909696, token="fc5aa1f22e33e17c")
    assert str(parsed) == HANDLE


@given(st.text(max_size=200), st.integers(10**9, 10**13))
def test_what_is_made_can_be_parsed(repo: str, ms: int) -> None:
    at = datetime.fromtimestamp(ms / 1000, UTC)
    made = Handle.make(repo, at, "0123456789abcdef")
    assert Handle.parse(str(made)) == made
    assert abs((made.created - at).total_seconds()) < 0.002
    assert len(str(made)) <= 256


@given(st.text() | st.from_regex(r"runtime-[\w.\\/-]*-[0-9]*-[0-9a-f]*", fullmatch=True))
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    try:
        handle = Handle.parse(text)
    except InvalidHandle:
        return
    assert str(handle) == text
    assert not {"/", "\\", ".", "\0", "\n"} & set(text)
    assert expiry(handle, 1_000_000) > handle.created


@pytest.mark.parametrize(
    "text",
    [
        "",
        "runtime",
        HANDLE + "\n",
        HANDLE.upper(),
        "runtime-0-00-0000000000000000",
        "x" + HANDLE,
        HANDLE + "0" * 300,
    ],
)
def test_s48_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidHandle) as caught:
        Handle.parse(text)
    assert str(caught.value) == (
        "Invalid artifact handle: a handle reads runtime-<workspace>-<milliseconds>-<16 hex digits>"
    )


MANIFEST = ArtifactManifest(
    workspace="/w",
    runtime="node",
    artifact_id=HANDLE,
    repo_id="w",
    stdout_bytes=1,
    stderr_bytes=2,
    stdout_sha256="0",
    stderr_sha256="1",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    expires_at=datetime(2026, 1, 2, tzinfo=UTC),
    server_version="0",
)


def test_a_manifest_comes_back_and_may_say_more() -> None:
    text = MANIFEST.model_dump_json(by_alias=True)
    assert ArtifactManifest.parse(text.encode()) == MANIFEST
    more = {**json.loads(text), "later": {"version": 2}}
    assert ArtifactManifest.parse(json.dumps(more).encode()) == MANIFEST


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.binary() | JSONS.map(lambda value: json.dumps(value).encode()))
def test_s50_hostile_manifests_are_none(data: bytes) -> None:
    assert ArtifactManifest.parse(data) is None


@given(st.sampled_from(list(json.loads(MANIFEST.model_dump_json(by_alias=True)))), JSONS)
def test_s50_manifests_with_one_hostile_field_are_none_or_sound(name: str, value: object) -> None:
    fields = {**json.loads(MANIFEST.model_dump_json(by_alias=True)), name: value}
    parsed = ArtifactManifest.parse(json.dumps(fields).encode())
    assert parsed is None or parsed.expires_at.tzinfo is not None


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "queryTerms are required unless cursor or lineRange is provided"),
        ({"queryTerms": []}, "queryTerms are required unless cursor or lineRange is provided"),
        ({"queryTerms": ["x"] * 11}, "at most 10 items"),
        ({"queryTerms": [""]}, "at least 1 character"),
        ({"queryTerms": ["x"], "maxExcerpts": 101}, "less than or equal to 100"),
        ({"queryTerms": ["x"], "maxExcerpts": 0}, "greater than or equal to 1"),
        ({"queryTerms": ["x"], "contextLines": 21}, "less than or equal to 20"),
        ({"queryTerms": ["x"], "stream": "stdin"}, "'stdout', 'stderr' or 'both'"),
        ({"queryTerms": ["x"], "view": "raw"}, "Extra inputs are not permitted"),
        ({"lineRange": {"stream": "stdout", "startLine": 3, "endLine": 2}}, "endLine is before startLine"),
        ({"lineRange": {"stream": "stdout", "startLine": 0, "endLine": 2}}, "greater than or equal to 1"),
        ({"cursor": {"stream": "stdout", "afterLine": -1}}, "greater than or equal to 0"),
        (
            {"cursor": {"stream": "stdout", "afterLine": 1}, "stream": "stderr"},
            "stream is stderr, but the requested lines are in stdout",
        ),
        (
            {"lineRange": {"stream": "stdout", "startLine": 1, "endLine": 2}, "queryTerms": ["x"]},
            "lineRange cannot be combined with queryTerms or cursor",
        ),
    ],
)
def test_questions_that_make_no_sense(asked: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError) as caught:
        OutputQuery.model_validate({"artifactHandle": HANDLE, **asked})
    assert why in str(caught.value)
