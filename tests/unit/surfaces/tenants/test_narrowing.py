"""The settings of a token: its policy only narrows, and no two users have a directory in common."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.errors import ConfigurationError
from paddock.policy.settings.keys import leaves
from paddock.policy.settings.loader import load
from paddock.policy.settings.merge import JOINED_KEYS, OWNERS_ONLY, narrows
from paddock.policy.settings.schema import ArtifactSettings, RuntimeSettings, SessionSettings, Settings
from paddock.policy.settings.serve import ServeToken
from paddock.surfaces.tenants.narrowing import make_user_key, narrow_settings

OWN_DIRECTORIES = (
    "approvals.directory",
    "artifacts.directory",
    "overlay.directory",
    "record.directory",
    "sdk.signals",
    "sdk.webhooks",
    "sdk.temporals",
)
SERVER = Settings(runtimes=RuntimeSettings(timeout_ms=10_000, network="loopback"))


def token(**fields: Any) -> ServeToken:
    return ServeToken(**{"name": "alice", "sha256": "0" * 64, **fields})


@pytest.mark.parametrize(
    "policy",
    [
        {"runtimes": {"network": "none", "timeout_ms": "5s"}},
        {"runtimes.network": "none", "runtimes.timeout_ms": 5000},
        {"runtimes.network": "none", "runtimes.timeout_ms": "5000"},
    ],
    ids=["tables", "dotted keys", "texts of the command line"],
)
def test_a_policy_narrows_in_every_spelling(policy: dict[str, Any]) -> None:
    narrowed = narrow_settings(SERVER, token(policy=policy)).runtimes
    assert (narrowed.network, narrowed.timeout_ms) == ("none", 5000)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (
            {"runtimes": {"network": "full"}},
            'runtimes.network = "full" allows more than "loopback", which is what the server allows and a token may only '
            "narrow; change the policy instead",
        ),
        (
            {"runtimes.timeout_ms": "11s"},
            "runtimes.timeout_ms = 11000 allows more than 10000, which is what the server allows and a token may only "
            "narrow; change the policy instead",
        ),
        ({"runtimes.netwrok": "none"}, "unknown key `runtimes.netwrok`; did you mean `runtimes.network`?"),
        ({"serve": {"max_jobs": 1}}, "a token may not set serve.max_jobs"),
        ({"serve.token": []}, "a token may not set serve.token"),
        ({"artifacts": {"directory": "/tmp"}}, "a token may not set artifacts.directory"),
        ({"approvals.directory": "/tmp"}, "a token may not set approvals.directory"),
        (
            {"network.rule": [{"host": "a.example", "effect": "allow", "header": {"X-A": "vault:a"}}]},
            "`network.rule.header` adds secrets to requests, which a token may not; set it in the user's paddock.toml",
        ),
        (
            {"runtimes": {"network": "some"}},
            'runtimes.network must be "none", "loopback", "hosts" or "full", not',
        ),
        ({"runtimes.allowed": ["cobol"]}, "runtimes.allowed: there is no runtime cobol"),
    ],
)
def test_a_policy_that_would_widen_is_refused(policy: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        narrow_settings(SERVER, token(policy=policy))
    assert str(refused.value).startswith(f"token alice: {why}")


@pytest.mark.parametrize("key", sorted(OWNERS_ONLY))
def test_what_only_an_owner_may_set_no_token_sets(key: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        narrow_settings(SERVER, token(policy={key: []}))
    assert str(refused.value) == f"token alice: a token may not set {key}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**7) | st.sampled_from(["none", "full", "*", "", "5s"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["effect", "a"]), inner, max_size=2)
    ),
    max_leaves=3,
)


@given(st.dictionaries(st.sampled_from(sorted(leaves(SERVER))), JSON, min_size=1, max_size=3))
def test_no_policy_gives_more_than_the_server_has(policy: dict[str, Any]) -> None:
    try:
        narrowed = narrow_settings(SERVER, token(policy=policy))
    except ConfigurationError:
        return
    above, below = leaves(SERVER), leaves(narrowed)
    plain = [key for key in above if key not in JOINED_KEYS and key not in OWN_DIRECTORIES]
    assert [key for key in plain if not narrows(key, above[key], below[key])] == []
    for key in JOINED_KEYS - {"runtimes.recipes", "serve.token", "mcp.repos"}:
        assert below[key][: len(above[key])] == above[key]


def test_rules_of_a_token_are_judged_apart_and_allow_nothing_alone(tmp_path: Path) -> None:
    (tmp_path / "user.toml").write_text('[[policy.rule]]\neffect = "deny"\nruntime = "ruby"\n')
    server = load(tmp_path, user=tmp_path / "user.toml", environment={}).settings
    policy = {"policy": {"rule": [{"effect": "allow", "runtime": "*", "origin": "user"}]}}
    rules = narrow_settings(server, token(policy=policy)).policy.rule
    assert [(rule.origin, rule.effect) for rule in rules] == [
        ("user", "deny"),
        ("token", "allow"),
        ("server", "deny"),
    ]


def test_a_token_of_a_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "paddock.toml").write_text('[[serve.token]]\nname = "mallory"\nsha256 = "' + "0" * 64 + '"\n')
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, user=tmp_path / "none.toml", environment={})
    assert str(refused.value) == (
        f"{tmp_path / 'paddock.toml'}, line 1: a workspace may not set serve.token; set it in {tmp_path / 'none.toml'}"
    )


def test_limits_of_a_token_are_limits_of_its_session() -> None:
    server = Settings(sessions=SessionSettings(max=10, max_per_actor=2))
    narrowed = narrow_settings(server, token(max_jobs=1, max_sessions=3))
    assert (narrowed.runtimes.max_jobs, narrowed.tools.max_jobs, narrowed.guest.max_workers) == (1, 1, 1)
    assert (narrowed.sessions.max, narrowed.sessions.max_per_actor) == (3, 2)


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,20}", fullmatch=True)


@given(NAMES, NAMES)
def test_two_users_have_no_directory_in_common(one: str, other: str) -> None:
    own, foreign = (leaves(narrow_settings(SERVER, token(name=name))) for name in (one, other))
    for key in OWN_DIRECTORIES:
        assert (own[key] == foreign[key]) == (one == other)
        assert not own[key].is_relative_to(foreign[key]) or one == other


def test_tokens_of_one_user_share_directories_and_a_bucket_has_a_prefix_for_each() -> None:
    server = Settings(artifacts=ArtifactSettings(url="s3://bucket/paddock/"))
    laptop = narrow_settings(server, token(name="laptop", actor="alice"))
    phone = narrow_settings(server, token(name="phone", actor="alice"))
    assert laptop == phone
    assert laptop.artifacts.url == f"s3://bucket/paddock/users/{make_user_key('token:alice')}"


@given(st.text())
def test_no_name_of_an_actor_leaves_its_directory(actor: str) -> None:
    key = make_user_key(actor.encode("utf-8", "replace").decode())
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")
