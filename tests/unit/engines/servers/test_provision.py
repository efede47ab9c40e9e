"""What a registry offers, whom the user trusts, and what enabling writes."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.servers.catalog.provisioning.service import (
    ProvisionAnswer,
    ProvisionChange,
    Provisioning,
    ProvisionMatch,
    RegistryServer,
    answer_intent,
    is_trusted,
    load_registry,
    load_trust,
    match_offers,
    read_trust,
)
from paddock.engines.servers.catalog.search import Hit
from paddock.engines.servers.config import load_servers
from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.gate.servers import ServerService
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.schema import ServerSettings, Settings

OFFER = RegistryServer(
    "npm", "@good/git", "1.2.0", "Git repositories", {"command": "npx", "args": ["-y", "@good/git@1.2.0"]}
)
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
        ProvisionMatch(OFFER, 0.5, is_trusted(OFFER, TRUST)).allowed,
        ProvisionMatch(OFFER, 1.0, is_trusted(replace(OFFER, name="@bad/git"), TRUST)).allowed,
        ProvisionMatch(OFFER, 0.9, is_trusted(OFFER, TRUST)).allowed,
    ] == [False, False, True]


def test_x38_an_intent_is_needed():
    for intent in ("", "  "):
        with pytest.raises(ValueError, match=r"^Missing required parameter: intent$"):
            answer_intent(intent, [], [OFFER], TRUST)


def test_a_scope_is_trusted_whole_or_a_name_exactly():
    names = ("@good/git", "@good", "@goodness/git", "exact", "exactly", "x/@good/git", "@GOOD/git")
    assert [name for name in names if is_trusted(replace(OFFER, name=name), TRUST)] == ["@good/git", "exact"]
    assert not is_trusted(
        replace(OFFER, name="@a/b"), ["*", "@*/*", "@a/*b", "", "/*", ":", "npm:", "npm:/*", "npm:*"]
    )


@pytest.mark.parametrize(
    ("pattern", "trusted"),
    [
        ("mcp-server-git", []),
        ("npm:mcp-server-git", ["npm:mcp-server-git"]),
        ("pypi:mcp-server-git", ["pypi:mcp_server.git"]),
        ("pypi:MCP-Server-Git==1.2.0", ["pypi:mcp_server.git"]),
        ("pypi:mcp-server-git==1.1.0", []),
        ("npm:mcp-server-git@1.2.0", ["npm:mcp-server-git"]),
        ("npm:mcp-server-git@1.3.0", []),
        ("@good/git@1.2.0", ["npm:@good/git"]),
        ("@good/*", ["npm:@good/git"]),
        ("acme", ["pypi:acme"]),
        ("acme/*", ["remote:acme/web"]),
        ("acme/web", ["remote:acme/web"]),
        ("npm:acme/*", []),
        ("remote:acme/*", ["remote:acme/web"]),
        ("remote:@good/*", ["remote:@good/git"]),
        ("remote:@good/git", ["remote:@good/git"]),
        ("gem:acme", []),
    ],
)
def test_trust_is_for_one_source(tmp_path, pattern, trusted):
    """A package of the same name elsewhere, and a remote server that calls itself like one, stay untrusted."""
    remotes = [
        {"name": name, "remotes": [{"type": "streamable-http", "url": "https://web.example/mcp"}]}
        for name in ("acme/web", "@good/git")
    ]
    offers = registry(
        tmp_path,
        entry(identifier="mcp-server-git"),
        entry(registryType="pypi", identifier="mcp_server.git"),
        entry(),
        entry(registryType="pypi", identifier="acme"),
        *remotes,
    )
    assert [offer.address for offer in offers if is_trusted(offer, [pattern])] == trusted


@pytest.mark.parametrize("name", ["mcp_server.git", "mcp-server-git", "pypi:MCP-Server_Git"])
def test_a_package_of_pypi_is_found_by_every_spelling_of_its_name(tmp_path, name):
    registry(tmp_path, entry(registryType="pypi", identifier="mcp_server.git"))
    provisioning = Provisioning(
        [tmp_path / "servers.json"], tmp_path / "registry.json", tmp_path / "trust.json"
    )
    assert provisioning.find_offer(name).offer.address == "pypi:mcp_server.git"
    with pytest.raises(ConfigurationError, match=r"there is no server 'npm:mcp_server\.git'"):
        provisioning.find_offer("npm:mcp_server.git")


def test_a_package_of_pypi_has_no_scope(tmp_path):
    assert registry(tmp_path, entry(registryType="pypi", identifier="@good/git")) == ()


def test_a_name_of_several_sources_is_refused_and_its_address_taken(tmp_path):
    registry(tmp_path, entry(identifier="git"), entry(registryType="pypi", identifier="git"))
    trust = tmp_path / "trust.json"
    trust.write_text('["git", "@other/git@1.0.0"]')
    provisioning = Provisioning([tmp_path / ".mcp.json"], tmp_path / "registry.json", trust)
    messages = []
    for name in ("git", "npm:git"):
        with pytest.raises(ConfigurationError) as refused:
            provisioning.enable_server(name, approved=True)
        messages.append(str(refused.value))
    assert messages == [
        "there are several servers 'git' in the registry's list; name one of them: npm:git, pypi:git",
        f"""git is not trusted: "git" may mean npm:git or pypi:git; to trust it, write "npm:git" into {trust}, a JSON array""",
    ]
    trust.write_text('["pypi:git==1.0.0"]')
    with pytest.raises(ConfigurationError) as refused:
        provisioning.enable_server("pypi:git", approved=True)
    assert str(refused.value) == (
        "git is not trusted: version 1.0.0 is trusted, but the list offers 1.2.0; "
        f'to trust it, write "pypi:git@1.2.0" into {trust}, a JSON array'
    )
    trust.write_text('["pypi:git@1.2.0"]')
    assert provisioning.enable_server("pypi:git", approved=True).name == "git"
    assert json.loads((tmp_path / ".mcp.json").read_text()) == {
        "mcpServers": {"git": {"command": "uvx", "args": ["git==1.2.0"]}}
    }


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
    assert answer_intent("log", [strong, weak], [OFFER], TRUST) == ProvisionAnswer(
        "local", tools=((strong, 1),)
    )
    assert answer_intent("log", [weak], [OFFER], TRUST) == ProvisionAnswer("local", tools=((weak, 0.42),))
    assert answer_intent("@good/git", [], [OFFER], TRUST) == ProvisionAnswer(
        "registry", matches=(ProvisionMatch(OFFER, 0.83, trusted=True),)
    )
    assert answer_intent("weather", [], [OFFER], TRUST) == ProvisionAnswer("none")


def test_matches_are_ordered_and_only_the_intent_counts():
    other = RegistryServer("npm", "weather", "1.0.0", "Forecasts", {})
    assert [each.offer.name for each in match_offers("weather", [OFFER, other], ())] == ["weather"]
    assert answer_intent("nothing", [], [other], (), context="weather") == ProvisionAnswer("none")


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
        RegistryServer("pypi", "good-time", "1.2.0", "Git repositories", {
            "command": "uvx", "args": ["good-time==1.2.0"], "env": {"TZ_KEY": "${TZ_KEY}"},
        }),
        RegistryServer("remote", "io.good/web", "", "", {"url": "https://good.example/mcp"}),
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


@pytest.fixture
def provisioning(tmp_path):
    """Make one whose registry offers `@good/git` and `@bad/x`; its servers file has a place of its own."""
    lists = tmp_path / "lists"
    lists.mkdir()
    registry(lists, entry(), entry(identifier="@bad/x"))
    (lists / "trust.json").write_text('["@good/*"]')
    place = tmp_path / "place"
    place.mkdir()
    return Provisioning([place / ".mcp.json"], lists / "registry.json", lists / "trust.json")


def test_enabling_keeps_what_was_there_and_a_backup(provisioning):
    path = provisioning.file_of("git")
    before = '{"mcpServers": {"a": {"command": "ä"}}, "other": 1}'
    path.write_text(before)
    path.chmod(0o640)
    backup = path.with_name(".mcp.json.backup")
    assert provisioning.enable_server("@good/git", approved=True) == ProvisionChange(
        "git", OFFER.entry, path, backup
    )
    assert backup.read_text() == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert json.loads(path.read_text()) == {
        "mcpServers": {"a": {"command": "ä"}, "git": dict(OFFER.entry)},
        "other": 1,
    }
    assert sorted(each.name for each in path.parent.iterdir()) == [".mcp.json", ".mcp.json.backup"]


def test_enabling_makes_a_file_for_the_user_alone(provisioning):
    made = Provisioning(
        [provisioning.file_of("git").parent / "new" / "servers.json"], *lists_of(provisioning)
    )
    assert made.enable_server("@good/git", own_name="mine", approved=True) == ProvisionChange(
        "mine", OFFER.entry, made.file_of("mine"), None
    )
    assert made.file_of("mine").stat().st_mode & 0o777 == 0o600


def lists_of(provisioning):
    return provisioning.trust_file.with_name("registry.json"), provisioning.trust_file


@pytest.mark.parametrize(
    ("text", "name", "options", "message"),
    [
        ("{}", "@good/git", {"approved": False}, "@good/git was not enabled: a person has to approve it"),
        (
            "{}",
            "@good/git",
            {"own_name": "../git"},
            "'../git' is not a name for a server: use letters, digits, `.`",
        ),
        ("{}", "@bad/x", {}, '@bad/x is not trusted; to trust it, write "npm:@bad/x" into '),
        ("{}", "@good/gti", {}, "no server '@good/gti' in the registry's list; did you mean @good/git?"),
        (
            '{"mcpServers": {"git": {}}}',
            "@good/git",
            {},
            "there is a server 'git' already; choose another name",
        ),
        ('{"mcpServers": []}', "@good/git", {}, "no object `mcpServers`; correct the file first"),
        (
            "{",
            "@good/git",
            {},
            "cannot be read: Expecting property name enclosed in double quotes: line 1 column 2 (char 1); correct the file first",
        ),
        ("[]", "@good/git", {}, "is not a JSON object; correct the file first"),
        (
            '{"mcpServers": {"git": {}}}',
            "git",
            {"approved": False},
            "git was not enabled: a person has to approve",
        ),
        ('{"mcpServers": {"git": 1}}', "git", {}, "server 'git' is not an object; correct the file first"),
    ],
)
def test_enabling_that_is_refused_changes_nothing(provisioning, text, name, options, message):
    path = provisioning.file_of("git")
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        provisioning.enable_server(name, **{"approved": True, **options})
    assert message in str(refused.value)
    assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_a_disabled_server_is_not_used_until_it_is_enabled_again(provisioning):
    path = provisioning.file_of("git")
    path.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}')
    provisioning.disable_server("a", approved=True)
    assert provisioning.list_configured() == {"a": False, "b": True}
    assert (list(load_servers(path, {}).servers), load_servers(path, {}).warnings) == (["b"], ())
    assert provisioning.disable_server("a", approved=True).backup is None
    provisioning.enable_server("a", approved=True)
    assert list(load_servers(path, {}).servers) == ["a", "b"]
    for name, approved, message in (("c", True, "there is no server 'c'"), ("a", False, "a person has to")):
        with pytest.raises(ConfigurationError, match=message):
            provisioning.disable_server(name, approved=approved)


def test_a_server_that_another_program_disabled_is_enabled(provisioning):
    path = provisioning.file_of("git")
    path.write_text('{"mcpServers": {"a": {"command": "x", "enabled": false}}}')
    assert (provisioning.list_configured(), load_servers(path, {}).servers) == ({"a": False}, {})
    provisioning.enable_server("a", approved=True)
    assert json.loads(path.read_text()) == {"mcpServers": {"a": {"command": "x"}}}


def test_a_session_reads_registry_and_trust_where_the_settings_say(tmp_path):
    registry(tmp_path, entry())
    (tmp_path / "trust.json").write_text('["@good/*"]')
    settings = Settings(
        servers=ServerSettings(
            registry=tmp_path / "registry.json", trust=tmp_path / "trust.json", state=tmp_path
        )
    )
    servers = ServerService(settings, tmp_path)
    [found] = servers.provisioning.answer_intent("@good/git").matches
    assert found == ProvisionMatch(OFFER, 0.83, trusted=True)
    assert not found.allowed
    servers.provisioning.enable_server("@good/git", approved=True)
    assert list(servers.config.servers) == ["git"]


@pytest.mark.parametrize(
    ("text", "patterns", "problems"),
    [
        ("[", (), ("this is not JSON; it trusts no server; write strings such as [",)),
        ('{"a": 1}', (), ("this is not a JSON array; it trusts no server; write strings such as [",)),
        (
            '["@a/*", 1]',
            (),
            ("entry 2 is a number, not a text; it trusts no server; write strings such as [",),
        ),
        (
            '["@a/*", "gem:x", "npm:", "pypi:@a/b", "a b", "*", "@a", "npm:a/*", "remote:*"]',
            ("@a/*",),
            (
                'entry 2, "gem:x", trusts no server: "gem" is not a source of servers; write npm:NAME, pypi:NAME or remote:NAME',
                *(
                    f'entry {number}, "{entry}", trusts no server: this is not the name of a server; write npm:NAME, pypi:NAME, '
                    "remote:NAME or npm:@SCOPE/*"
                    for number, entry in enumerate(
                        ("npm:", "pypi:@a/b", "a b", "*", "@a", "npm:a/*", "remote:*"), 3
                    )
                ),
            ),
        ),
        (
            '["npm:x@", "@a/b@1 2", "@a/*@1", "x@1.2.0"]',
            ("x@1.2.0",),
            (
                *(
                    f'entry {number}, "{entry}", trusts no server: the text after `@` is not a version; write NAME@VERSION, or '
                    "NAME alone for every version"
                    for number, entry in enumerate(("npm:x@", "@a/b@1 2"), 1)
                ),
                'entry 3, "@a/*@1", trusts no server: this is not the name of a server; write npm:NAME, pypi:NAME, remote:NAME or '
                "npm:@SCOPE/*",
            ),
        ),
    ],
)
def test_what_is_wrong_with_a_trust_file_is_told(tmp_path, text, patterns, problems):
    path = tmp_path / "trust.json"
    path.write_text(text)
    found = read_trust(path)
    assert found.patterns == patterns
    assert len(found.problems) == len(problems)
    for told, expected in zip(found.problems, problems, strict=True):
        assert told.startswith(f"{path}: {expected}")


def test_a_version_or_a_scope_that_is_none_trusts_nobody():
    assert not is_trusted(OFFER, [f"{OFFER.name}@", f"{OFFER.name}==", "@good/*@1.2.0", "@good/*@"])


def test_entries_that_trust_somebody_are_in_order(tmp_path):
    texts = [
        "@a/b",
        "@a/*",
        "npm:x@1.2.0",
        "pypi:x_y.z==1.0",
        "remote:io.x/y",
        "remote:@a/*",
        "acme/*",
        "acme",
        "X",
    ]
    (tmp_path / "t.json").write_text(json.dumps(texts))
    assert read_trust(tmp_path / "t.json") == (tuple(texts), ())


def test_a_write_protected_servers_file_is_left_alone(provisioning):
    path = provisioning.file_of("git")
    before = json.dumps({"mcpServers": {"a": {"command": "x"}}})
    path.write_text(before)
    path.chmod(0o444)
    with pytest.raises(ConfigurationError) as told:
        provisioning.disable_server("a", approved=True)
    assert str(told.value) == (
        f"{path}: is write-protected (mode 0444), so nothing was changed. To let Paddock change it, run: chmod u+w {path}"
    )
    assert (path.read_text(), [each.name for each in path.parent.glob("*.backup")]) == (before, [])
