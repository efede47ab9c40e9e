import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.servers.auth.client_config import OAuth
from paddock.engines.servers.config import (
    HttpServer,
    Lifecycle,
    ServersConfig,
    StdioServer,
    combine_configs,
    is_paddock,
    load_servers,
)


def load(tmp_path, document, environ=None):
    path = tmp_path / ".mcp.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    config = load_servers(path, environ or {})
    return config.servers, [warning.removeprefix(f"{path}") for warning in config.warnings]


def one(tmp_path, entry, environ=None):
    servers, warnings = load(tmp_path, {"mcpServers": {"s": entry}}, environ)
    return servers.get("s"), warnings


def test_missing_file_means_no_servers(tmp_path):
    assert load_servers(tmp_path / "none.json", {}) == ServersConfig()


def test_unparsable_file_means_no_servers_and_a_warning_with_the_position(tmp_path):
    assert load(tmp_path, '{\n  "mcpServers": }') == (
        {},
        [":2:17: not JSON: Expecting value. None of its servers is used."],
    )


COMMENT, COMMA = "JSON has no comments: remove them. ", "Remove the comma after the last member. "


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ('{\n  // mine\n  "mcpServers": {}}', COMMENT),
        ('{"mcpServers": {} /* none */}', COMMENT),
        ('{"mcpServers": {"s": {"command": "x"},\n}}', COMMA),
        ('{"mcpServers": {"s": {"args": ["x", ]}}}', COMMA),
        ('{"a": [1, 2], b: [3,]}', ""),
        ('{"a": "//", b: 1}', ""),
    ],
)
def test_what_editors_allow_in_their_own_files_is_called_by_its_name(tmp_path, text, advice):
    servers, [warning] = load(tmp_path, text)
    _, _, told = warning.partition(": not JSON: ")
    said, _, rest = told.partition(". ")  # what Python says is another thing from 3.13 on
    assert (servers, bool(said), rest) == ({}, True, f"{advice}None of its servers is used.")


def test_what_other_programs_write_is_understood(tmp_path):
    entry = {
        "command": "x",
        "env": {"PORT": 3000, "DEBUG": True},
        "args": None,
        "url": None,
        "disabled": None,
    }
    assert one(tmp_path, entry) == (StdioServer("s", "x", env={"PORT": "3000", "DEBUG": "true"}), [])
    assert one(tmp_path, {"command": "x", "enabled": False}) == (None, [])
    assert one(tmp_path, {"url": "http://h/sse", "transport": "sse"})[0].transport == "sse"


def test_unreadable_and_shapeless_files(tmp_path):
    assert load_servers(tmp_path, {}).warnings == (
        f"{tmp_path}: cannot be read: Is a directory. None of its servers is used.",
    )
    assert load(tmp_path, '{"servers": {"time": {"command": "uvx"}}}') == (
        {},
        [": no object `mcpServers`. Rename `servers` to that. None of its servers is used."],
    )
    for shapeless in (
        "[]",
        '{"time": {"command": "uvx"}}',
        '{"time": {"url": "https://time.test"}}',
    ):
        assert load(tmp_path, shapeless) == ({}, [": no object `mcpServers`. None of its servers is used."])
    for empty in ("{}", '{"inputs": [], "theme": {"name": "dark"}}'):
        assert load(tmp_path, empty) == ({}, [])
    assert load(tmp_path, "[" * 100_000)[0] == {}
    (tmp_path / "latin").write_bytes(b"\xff")
    assert load_servers(tmp_path / "latin", {}).warnings == (
        f"{tmp_path / 'latin'}: cannot be read: it is not UTF-8 text. None of its servers is used.",
    )


def test_entries_of_editors(tmp_path):
    server, warnings = one(
        tmp_path, {"command": "x", "env": {"A": "${env:KEY}", "B": "${env:NO:-b}"}}, {"KEY": "k"}
    )
    assert (server.env, warnings) == ({"A": "k", "B": "b"}, [])
    server, warnings = one(tmp_path, {"command": "x", "env": {"A": "${input:key}"}})
    assert (server.env, warnings) == (
        {"A": "${input:key}"},
        [
            ": server 's': `${input:key}` is a variable of editors: it is not replaced. Write ${NAME}, and set the variable."
        ],
    )
    for key in ("httpUrl", "serverUrl"):
        assert one(tmp_path, {key: "https://a.test/mcp"})[0].url == "https://a.test/mcp"


def test_all_fields_of_a_stdio_server(tmp_path):
    entry = {
        "command": "npx",
        "args": ["-y", "x"],
        "env": {"A": "b"},
        "cwd": "sub",
        "timeoutMs": 5,
        "lifecycle": {"mode": "keep-alive", "idleTimeoutMs": 7},
        "disabled": False,
    }
    assert one(tmp_path, entry) == (
        StdioServer("s", "npx", ("-y", "x"), {"A": "b"}, tmp_path / "sub", 5, Lifecycle("keep-alive", 7)),
        [],
    )


def test_what_may_have_to_be_fetched_first_has_longer_to_start(tmp_path):
    def start_ms(**entry):
        return one(tmp_path, entry)[0].start_ms

    assert start_ms(command="npx") == start_ms(command="/usr/bin/uvx", args=["x"]) == 300_000
    assert start_ms(command="${NPX:-npx}") == 300_000
    assert (start_ms(command="npx", timeoutMs=60_000), start_ms(command="node")) == (0, 0)


def test_all_fields_of_an_http_server(tmp_path):
    server, warnings = one(
        tmp_path,
        {"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}, "lifecycle": "ephemeral"},
    )
    assert server == HttpServer(
        "s", "https://h/mcp", {"A": "b"}, 60_000, Lifecycle("ephemeral"), transport="http"
    )
    assert warnings == []


def test_x34_entry_without_command_or_url_is_skipped_and_the_others_load(tmp_path):
    servers, warnings = load(tmp_path, {"mcpServers": {"bad": {"env": {}}, "good": {"command": "x"}}})
    assert servers == {"good": StdioServer("good", "x")}
    assert warnings == [": server 'bad': has neither `command` nor `url`; skipped."]


def test_x34_entries_of_wrong_types_are_skipped_without_showing_values(tmp_path):
    assert one(tmp_path, {"command": "x", "timeoutMs": 0}) == (
        None,
        [": server 's': `timeoutMs`: Input should be greater than 0; skipped."],
    )
    assert one(tmp_path, {"command": "x", "env": {"T": ["secret"]}}) == (
        None,
        [": server 's': `env.T`: must be a text: write it between \"quotes\"; skipped."],
    )
    assert one(tmp_path, {"command": "x", "args": "y"}) == (
        None,
        [": server 's': `args`: must be a list of texts; skipped."],
    )
    assert one(tmp_path, "npx") == (
        None,
        [": server 's': must be an object; skipped."],
    )


def test_the_transport_is_the_named_one_or_either(tmp_path):
    named = {"sse": "sse", "http": "http", "streamable-http": "http", "streamableHttp": "http", None: "auto"}
    for name, transport in named.items():
        server, warnings = one(tmp_path, {"url": "http://h/sse", "type": name})
        assert (server.transport, warnings) == (transport, [])


def test_calls_at_a_time_are_bounded_by_a_whole_number_above_zero(tmp_path):
    for where in ({"command": "x"}, {"url": "http://h/"}):
        assert one(tmp_path, where)[0].max_concurrent is None
        assert one(tmp_path, {**where, "maxConcurrent": 1})[0].max_concurrent == 1
    assert one(tmp_path, {"command": "x", "maxConcurrent": 0}) == (
        None,
        [": server 's': `maxConcurrent`: Input should be greater than 0; skipped."],
    )


def test_strange_addresses_are_skipped(tmp_path):
    for url in ("file:///etc/passwd", "http://[", "http:///path"):
        assert one(tmp_path, {"url": url}) == (
            None,
            [": server 's': `url` must be an address that begins with http:// or https://; skipped."],
        )
    for port in ("99999", "65536", "0", "-1", "a", "\uff11"):
        assert one(tmp_path, {"url": f"http://user:password@h:{port}/mcp"}) == (
            None,
            [": server 's': `url` names a port out of range: a port is 1 to 65535; skipped."],
        )
    for url in ("http://h/a\n", "http://h\x00/", "http://\u2028/", "http://h/" + "a" * 65_000):
        assert one(tmp_path, {"url": url}) == (
            None,
            [
                ": server 's': `url` contains a line end or the like, or has more than 65000 characters; skipped."
            ],
        )


def test_x35_set_variable_is_expanded_everywhere(tmp_path):
    environ = {"TOKEN": "tok-123", "BIN": "node", "EMPTY": ""}
    server, warnings = one(
        tmp_path,
        {
            "command": "${BIN}",
            "args": ["--t=${TOKEN}", "${EMPTY:-d}", "${NONE:-}", "${NONE:-x}"],
            "env": {"A": "Bearer ${TOKEN}"},
        },
        environ,
    )
    assert (server.command, server.args) == ("node", ("--t=tok-123", "d", "", "x"))
    assert server.env == {"A": "Bearer tok-123"}
    assert warnings == []
    web, _ = one(tmp_path, {"url": "http://h/${TOKEN}", "headers": {"A": "Bearer ${TOKEN}"}}, environ)
    assert (web.url, web.headers) == ("http://h/tok-123", {"A": "Bearer tok-123"})


def test_x35_unset_variable_stays_literal_with_a_warning(tmp_path):
    server, warnings = one(tmp_path, {"command": "x", "env": {"A": "Bearer ${TOKEN}"}})
    assert server.env == {"A": "Bearer ${TOKEN}"}
    assert warnings == [
        ": server 's': variable TOKEN is not set; `${TOKEN}` stays as it is. Set it or give a default."
    ]


def test_secrets_are_in_no_repr(tmp_path):
    environ = {"TOKEN": "tok-123", "HOME": "/home/u"}
    server, _ = one(tmp_path, {"command": "${HOME}/${TOKEN}", "env": {"A": "${TOKEN}"}}, environ)
    assert repr(server) == "StdioServer('s', command='/home/u/[REDACTED:server]', 0 args, env=['A'])"
    assert server.secrets.hide("/home/u tok-123 tok") == "/home/u [REDACTED:server] tok"
    web, _ = one(tmp_path, {"url": "http://u:p@h:1/${TOKEN}?k", "headers": {"K": "Bearer abcd"}}, environ)
    assert repr(web) == "HttpServer('s', host='http://h:1', headers=['K'])"
    assert (
        web.secrets.hide("Bearer abcd, abcd, tok-123")
        == "[REDACTED:server], [REDACTED:server], [REDACTED:server]"
    )
    assert "tok-123" not in repr(ServersConfig({"s": server, "w": web}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_what_an_address_holds_of_secrets_is_hidden(tmp_path):
    web, _ = one(tmp_path, {"url": "http://bob:p%40ss-1234@h/mcp?key=tok-123456&page=12"})
    said = "p%40ss-1234 p@ss-1234 Basic Ym9iOnBAc3MtMTIzNA== tok-123456 page 12"
    assert (
        web.secrets.hide(said)
        == "[REDACTED:server] [REDACTED:server] Basic [REDACTED:server] [REDACTED:server] page 12"
    )
    assert (web.has_credentials, one(tmp_path, {"url": "http://h/?key=tok-123456"})[0].has_credentials) == (
        True,
        False,
    )


@pytest.mark.parametrize(
    ("name", "value"), [("X-A", "a\nb"), ("X-A", "\u00e9"), ("X A", "b"), ("", "b"), ("X:", "b")]
)
def test_headers_that_cannot_be_sent_are_not_repeated(tmp_path, name, value):
    told = f": server 's': header {name!r} contains a character that headers cannot contain, such as a line end; skipped."
    assert one(tmp_path, {"url": "http://h/", "headers": {name: value}}) == (None, [told])


def test_space_around_a_header_is_left_out(tmp_path):
    """Variables often end with the line end of the file they were read from."""
    web, warnings = one(tmp_path, {"url": "http://h/", "headers": {"K": "Bearer ${T}"}}, {"T": "tok-123\n"})
    assert (web.headers, warnings, web.secrets.hide("is tok-123")) == (
        {"K": "Bearer tok-123"},
        [],
        "is [REDACTED:server]",
    )


@given(json_values, st.sampled_from(["command", "url", "args", "env", "headers", "lifecycle", "type", "cwd"]))
def test_no_json_document_breaks_the_reading(tmp_path_factory, value, key):
    path = Path(tmp_path_factory.getbasetemp()) / "any.json"
    for document in (value, {"mcpServers": value}, {"mcpServers": {"s": {"command": "x", key: value}}}):
        path.write_text(json.dumps(document))
        config = load_servers(path, {})
        names = {"s", *value} if isinstance(value, dict) else {"s"}
        assert set(config.servers) <= names


def test_all_fields_of_oauth(tmp_path):
    entry = {
        "url": "https://reports.example/mcp",
        "oauth": {
            "grant": "client_credentials",
            "clientId": "us",
            "clientSecret": "${SECRET}",
            "issuer": "https://login.example",
            "scope": "read write",
            "callbackPort": 8123,
            "clientMetadataUrl": "https://us.example/client.json",
            "authServerMetadataUrl": "a key of another program",
        },
    }
    server, warnings = one(tmp_path, entry, {"SECRET": "hush-hush"})
    assert warnings == []
    assert isinstance(server, HttpServer)
    assert server.oauth == OAuth(
        grant="client_credentials",
        client_id="us",
        client_secret="hush-hush",
        issuer="https://login.example",
        scope="read write",
        callback_port=8123,
        client_metadata_url="https://us.example/client.json",
    )
    assert server.secrets.hide("the secret is hush-hush") == "the secret is [REDACTED:server]"
    assert "hush" not in repr(server) + repr(server.oauth)


@pytest.mark.parametrize(
    ("oauth", "warning"),
    [
        (
            {"clientId": "us", "clientSecret": "x"},
            "`oauth`: a client with a secret needs `clientId` and `issuer`, the address of the authorization server "
            "that may receive the secret; skipped.",
        ),
        ({"scope": 'a"b'}, "`oauth`: `scope` must be names separated by single spaces; skipped."),
        (
            {"issuer": "file:///etc"},
            "`oauth`: `issuer` must be the https:// address of an authorization server; skipped.",
        ),
        (
            {"clientMetadataUrl": "http://us.example/client.json"},
            "`oauth`: `clientMetadataUrl` must be an https:// address with a path; skipped.",
        ),
    ],
)
def test_what_is_wrong_with_oauth_is_told(tmp_path, oauth, warning):
    server, warnings = one(tmp_path, {"url": "https://x.example/mcp", "oauth": oauth})
    assert (server, warnings) == (None, [f": server 's': {warning}"])


def test_oauth_of_other_programs_is_passed_over(tmp_path):
    server, warnings = one(tmp_path, {"url": "https://x.example/mcp", "oauth": True})
    assert (server, warnings) == (HttpServer("s", "https://x.example/mcp"), [])


def test_a_name_that_programs_cannot_reach_is_told(tmp_path):
    entries = {name: {"command": "c"} for name in ("then", "toJSON", "call")}
    servers, warnings = load(tmp_path, {"mcpServers": entries})
    told = "programs cannot reach it by this name; rename it"
    assert (list(servers), warnings) == (
        ["then", "toJSON", "call"],
        [f": server 'then': {told}", f": server 'toJSON': {told}"],
    )


def test_of_two_files_the_first_counts_where_both_have_a_server(tmp_path):
    own, shared = tmp_path / ".paddock/servers.json", tmp_path / ".mcp.json"
    own.parent.mkdir()
    off = {"command": "x", "disabled": True}
    own.write_text(json.dumps({"mcpServers": {"a": {"command": "own", "cwd": "sub"}, "off": off, "bad": {}}}))
    entries = {
        "a": {"command": "shared"},
        "off": {"command": "y"},
        "b": {"command": "b"},
        "bad": off,
        "gone": off,
    }
    shared.write_text(json.dumps({"mcpServers": entries}))
    found = combine_configs(
        load_servers(own, {}, base=tmp_path), load_servers(shared, {}, base=tmp_path), own, shared
    )
    commands = {name: getattr(server, "command", None) for name, server in found.servers.items()}
    assert commands == {"a": "own", "b": "b"}
    assert getattr(found.servers["a"], "cwd", None) == tmp_path / "sub"
    twice = "that entry is used; remove one of them"
    assert found.warnings == (
        f"{own}: server 'bad': has neither `command` nor `url`; skipped.",
        *(f"{shared}: server {name!r}: {own} also has it, and {twice}" for name in ("a", "off", "bad")),
    )
    assert found.absent == {
        "off": "off is disabled in .paddock/servers.json; `paddock servers enable off` enables it",
        "bad": "its entry in .paddock/servers.json cannot be used; `paddock servers list` says why",
        "gone": "gone is disabled in .mcp.json; `paddock servers enable gone` enables it",
    }


def test_an_entry_that_starts_paddock_itself_is_passed_over(tmp_path):
    native = {"type": "stdio", "command": "/opt/bin/paddock", "args": ["serve", "mcp", "--workspace", "/p"]}
    docker = {"command": "docker", "args": ["run", "-v", "paddock-state:/state", "i", "serve", "mcp"]}
    assert load(tmp_path, {"mcpServers": {"paddock": native, "in-a-box": docker}}) == ({}, [])
    found = load_servers(tmp_path / ".mcp.json", {})
    assert found.absent == {
        "paddock": "paddock in .mcp.json is Paddock itself",
        "in-a-box": "in-a-box in .mcp.json is Paddock itself",
    }


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("uvx", ["paddock"]),
        ("python3", ["-m", "paddock"]),
        ("wsl.exe", ["--exec", "/home/ada/.local/bin/paddock"]),
        ("C:\\Users\\ada\\paddock.exe", []),
        ("docker", ["run", "registry.example/paddock"]),
    ],
)
def test_paddock_is_known_whatever_starts_it(command, launcher):
    assert is_paddock({"command": command, "args": [*launcher, "serve", "mcp", "--tool-names", "compat"]})
    assert not is_paddock({"command": command, "args": [*launcher, "serve"]})


@pytest.mark.parametrize(
    "entry",
    [
        5,
        {},
        {"command": "other", "args": ["serve", "mcp", "paddock"]},
        {"command": "paddock"},
        {"command": "paddock", "args": ["run", "x"]},
        {"command": "paddock", "args": "serve mcp"},
        {"command": "other", "args": ["serve", "mcp"]},
        {"command": 5, "args": ["serve", "mcp"]},
        {"url": "https://paddock.example/serve/mcp"},
    ],
)
def test_another_entry_is_not_paddock(entry):
    assert not is_paddock(entry)


def test_a_name_that_stands_twice_makes_the_file_unusable(tmp_path):
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"s": {"command": "reviewed"}, "s": {"command": "not reviewed"}}}')
    found = load_servers(file, {})
    assert (found.servers, found.usable) == ({}, False)
    assert found.warnings == (
        f"{file}: 's' occurs twice in one object; remove one of them. None of its servers is used.",
    )


def test_a_first_file_that_cannot_be_read_leaves_its_names_to_no_other(tmp_path):
    own, shared = tmp_path / "servers.json", tmp_path / ".mcp.json"
    os.mkfifo(own)
    shared.write_text('{"mcpServers": {"s": {"command": "overruled"}}}')
    found = combine_configs(load_servers(own, {}), load_servers(shared, {}), own, shared)
    assert found.servers == {}
    assert found.warnings[1:] == (f"{shared}: not used, because its servers may have other entries in {own}",)
