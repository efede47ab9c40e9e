"""What a registry offers, whom the user trusts, and what enabling writes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.hub.provision import (
    Match,
    Offer,
    Provision,
    enable,
    is_trusted,
    load_registry,
    load_trust,
    match,
    provision,
)
from paddock.hub.result import ToolInfo
from paddock.hub.search import CatalogTool, Hit
from paddock.model.errors import ConfigurationError
from paddock.model.settings import ServerSettings, Settings
from paddock.wiring import Servers

OFFER = Offer("@good/git", "Git repositories", {"command": "npx", "args": ["-y", "@good/git@1.2.0"]})
TRUST = ("@good/*", "exact")


def entry(**package):
    filled = {
        "registryType": "npm",
        "identifier": "@good/git",
        "version": "1.2.0",
        "transport": {"type": "stdio"},
    }
    return {
        "server": {
            "name": "io.good/git",
            "description": "Git repositories",
            "packages": [{**filled, **package}],
        }
    }


def registry(tmp_path, *entries):
    path = tmp_path / "registry.json"
    path.write_text(json.dumps({"servers": list(entries), "metadata": {"count": len(entries)}}))
    return load_registry(path)


def test_x37_trust_and_confidence_are_both_needed():
    assert [
        Match(OFFER, 0.5, is_trusted("@good/git", TRUST)).allowed,
        Match(OFFER, 1.0, is_trusted("@bad/git", TRUST)).allowed,
        Match(OFFER, 0.9, is_trusted("@good/git", TRUST)).allowed,
    ] == [False, False, True]


def test_x38_an_intent_is_needed():
    for intent in ("", "  "):
        with pytest.raises(ValueError, match=r"^Missing required parameter: intent$"):
            provision(intent, [], [OFFER], TRUST)


def test_a_scope_is_trusted_whole_or_a_name_exactly():
    names = ("@good/git", "@good", "@goodness/git", "exact", "exactly", "x/@good/git", "@GOOD/git")
    assert [name for name in names if is_trusted(name, TRUST)] == ["@good/git", "@good", "exact"]
    assert is_trusted("plain", ["plain/*"])
    assert not is_trusted("@a/b", ["*", "@*/*", "@a/*b", ""])


@pytest.mark.parametrize("text", [None, "", "{", '{"a": 1}', '["@a/*", 1]', "[" * 100_000])
def test_a_trust_file_that_says_nothing_clear_trusts_nobody(tmp_path, text):
    path = tmp_path / "trusted-servers.json"
    if text is not None:
        path.write_text(text)
    assert load_trust(path) == ()


def test_trust_is_read(tmp_path):
    (tmp_path / "t.json").write_text('["@a/*", "b"]')
    assert load_trust(tmp_path / "t.json") == ("@a/*", "b")


def test_local_tools_come_first_and_weak_ones_only_alone():
    def hit(name, score):
        return Hit(CatalogTool("s", ToolInfo(name, "", {}, None, {})), score)

    strong, weak = hit("log", 12), hit("blog", 5)
    assert provision("log", [strong, weak], [OFFER], TRUST) == Provision("local", tools=((strong, 1),))
    assert provision("log", [weak], [OFFER], TRUST) == Provision("local", tools=((weak, 0.42),))
    assert provision("@good/git", [], [OFFER], TRUST) == Provision(
        "registry", matches=(Match(OFFER, 0.83, trusted=True),)
    )
    assert provision("weather", [], [OFFER], TRUST) == Provision("none")


def test_matches_are_ordered_and_only_the_intent_counts():
    other = Offer("weather", "Forecasts", {})
    assert [each.offer.name for each in match("weather", [OFFER, other], ())] == ["weather"]
    assert provision("nothing", [], [other], (), context="weather") == Provision("none")


def test_the_official_format_is_read(tmp_path):
    python = entry(registryType="pypi", identifier="good-time", environmentVariables=[
        {"name": "TZ_KEY", "isRequired": True, "isSecret": True}, {"name": "LEVEL"},
    ])  # fmt: skip
    remote = {
        "name": "io.good/web",
        "remotes": [{"type": "streamable-http", "url": "https://good.example/mcp"}],
    }
    assert registry(tmp_path, entry(), python, remote) == (
        OFFER,
        Offer("good-time", "Git repositories", {
            "command": "uvx", "args": ["good-time==1.2.0"], "env": {"TZ_KEY": "${TZ_KEY}"},
        }),
        Offer("io.good/web", "", {"url": "https://good.example/mcp"}),
    )  # fmt: skip
    assert load_registry(tmp_path / "missing.json") == ()


@pytest.mark.parametrize(
    "package",
    [
        {"identifier": "--eval=process.exit()"},
        {"identifier": "@a/b/../../c"},
        {"identifier": "https://evil.example/x.tgz"},
        {"identifier": "git+ssh://evil"},
        {"identifier": "a b"},
        {"version": "latest"},
        {"version": "1.0 --registry=http://evil"},
        {"version": None},
        {"registryType": "oci"},
        {"transport": {"type": "sse"}},
        {"packageArguments": [{"type": "positional", "value": "/"}]},
        {"environmentVariables": [{"name": "LD_PRELOAD=/x\n", "isRequired": True}]},
    ],
)
def test_what_cannot_be_run_as_it_is_is_no_offer(tmp_path, package):
    assert registry(tmp_path, entry(**package)) == ()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["server", "name", "packages", "remotes", "url", "identifier", "version"]), inner
        )
    ),
)


@given(anything)
def test_no_list_breaks_reading(tmp_path_factory, value):
    registry(tmp_path_factory.mktemp("r"), value)


def test_enabling_keeps_what_was_there_and_a_backup(tmp_path):
    path = tmp_path / ".mcp.json"
    before = '{"mcpServers": {"a": {"command": "ä"}}, "other": 1}'
    path.write_text(before)
    path.chmod(0o640)
    backup = enable(path, "git", OFFER, approved=True)
    assert backup == tmp_path / ".mcp.json.backup"
    assert backup.read_text() == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert json.loads(path.read_text()) == {
        "mcpServers": {"a": {"command": "ä"}, "git": dict(OFFER.entry)},
        "other": 1,
    }
    assert sorted(each.name for each in tmp_path.iterdir()) == [".mcp.json", ".mcp.json.backup"]


def test_enabling_makes_a_file_for_the_user_alone(tmp_path):
    path = tmp_path / "new" / "servers.json"
    assert enable(path, "git", OFFER, approved=True) is None
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "name", "approved", "message"),
    [
        ("{}", "git", False, "@good/git was not enabled: a person has to approve it"),
        ("{}", "../git", True, "'../git' is no name for a server: use letters, digits, `.`, `_` and `-`"),
        ('{"mcpServers": {"git": {}}}', "git", True, "there is a server 'git' already; choose another name"),
        ('{"mcpServers": []}', "git", True, "no object `mcpServers`; correct the file first"),
        ("{", "git", True, "cannot be read"),
    ],
)
def test_enabling_that_is_refused_changes_nothing(tmp_path, text, name, approved, message):
    path = tmp_path / ".mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        enable(path, name, OFFER, approved=approved)
    assert message in str(refused.value)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_session_reads_registry_and_trust_where_the_settings_say(tmp_path):
    registry(tmp_path, entry())
    (tmp_path / "trust.json").write_text('["@good/*"]')
    settings = Settings(
        servers=ServerSettings(
            registry=tmp_path / "registry.json", trust=tmp_path / "trust.json", state=tmp_path
        )
    )
    servers = Servers(settings, tmp_path)
    [found] = servers.matches("@good/git").matches
    assert found == Match(OFFER, 0.83, trusted=True)
    assert not found.allowed
    assert servers.enable("git", found.offer, approved=True) is None
    assert list(servers.config.servers) == ["git"]
