"""`/policy`: what can be tried, what answers, and from which file and line; what a user of a server sees of it."""

from urllib.parse import urlencode

import pytest
from tests.support.page_text import list_attributes, read_lines
from tests.support.web import WebPlace

SETTINGS = """\
[runtimes]
network = "hosts"

[[policy.rule]]
effect = "deny"
tool = "odd/crash*"
reason = "crashes are for tests"

[[policy.rule]]
effect = "ask"
server = "odd"

[[network.rule]]
host = "api.example.com"
effect = "allow"
methods = ["GET"]
header = { Authorization = "Bearer secret-of-the-rule" }

[[flow.label]]
server = "odd"
source = "private"
sink = "external"

[[flow.rule]]
source = "private"
sink = "external"
effect = "deny"
"""


@pytest.fixture
def place(tmp_path):
    place = WebPlace(tmp_path)
    place.settings(SETTINGS)
    (place.workspace / "paddock.toml").write_text(
        '[[policy.rule]]\neffect = "deny"\nruntime = "ruby"\nreason = "<b>no ruby</b>"\n'
    )
    (place.workspace / ".env").write_text("KEY=1\n")
    (place.workspace / "main.py").write_text("1\n")
    return place


@pytest.fixture
def page(place):
    with place.serve_page() as server, server.client(server.log_in()) as client:
        yield Page(client)


class Page:
    """The page of one person."""

    def __init__(self, client):
        self.client = client

    def open(self, **fields):
        answer = self.client.get(f"/policy?{urlencode(fields)}")
        assert answer.status_code == 200, answer.text
        return answer.text

    def try_(self, **fields):
        """Return the lines of the answer: those between the form and the sentences."""
        lines = read_lines(self.open(**{**fields, "try": "1"}))
        start = lines.index("Nothing runs, and no server starts.") + 1
        end = next(at for at, line in enumerate(lines) if line.startswith("What an agent may do"))
        return lines[start:end]


def user_file(place, line):
    return f"{place.home}/.config/paddock/paddock.toml, line {line}"


def test_a_denied_call_names_the_rule_with_file_and_line(page, place):
    assert page.try_(kind="server", server="odd", tool="crash_once", arguments='{"a": 1}') == [
        "Denied.",
        "crashes are for tests",
        "Decided by",
        f"user rule 1 {user_file(place, 4)}",
        "Rules that match",
        "Rule | Effect | Keys | File and line",
        f'user rule 1 decides | deny | effect = "deny", tool = "odd/crash*", reason = "crashes are for tests" | '
        f"{user_file(place, 4)}",
        f'user rule 2 | ask | effect = "ask", server = "odd" | {user_file(place, 9)}',
        "Checks, in their order",
        "objects rules and grants of the settings",
    ]


def test_a_call_that_asks_shows_the_flow_rules_that_may_apply(page, place):
    assert page.try_(kind="server", server="odd", tool="echo") == [
        "A person is asked first.",
        "odd/echo needs a person's approval, says user rule 2",
        "Decided by",
        f"user rule 2 {user_file(place, 9)}",
        "Flow of data",
        "denied once its run has read private data, says user flow rule 1",
        "its results count as private",
        "Rules that match",
        "Rule | Effect | Keys | File and line",
        f'user rule 2 decides | ask | effect = "ask", server = "odd" | {user_file(place, 9)}',
        f'user flow rule 1 | deny | source = ["private"], sink = "external", effect = "deny" | '
        f"{user_file(place, 24)}",
        "Checks, in their order",
        "agrees rules and grants of the settings",
    ]


def test_an_unknown_server_is_named_with_those_there_are(page):
    lines = page.try_(kind="server", server="od", tool="echo")
    assert lines[:2] == [
        "Allowed.",
        "The server would not get this call: Unknown server: od; did you mean `odd`?",
    ]


def test_arguments_are_checked_once_the_server_has_listed_its_tools(page):
    text = page.client.get("/servers/even").text
    token = text.partition('name="csrf" value="')[2].partition('"')[0]
    page.client.post("/servers/even", data={"csrf": token, "action": "connect"})
    lines = page.try_(kind="server", server="even", tool="ech")
    assert lines[1] == (
        "The server would not get this call: Server even has no tool 'ech'; did you mean `echo`?"
    )


def test_a_program_shows_its_checks_and_the_files_that_it_cannot_read(page):
    lines = page.try_(kind="runtime", runtime="python", network="full")
    assert lines == [
        "Denied.",
        'network full is not granted (granted: hosts); set `network = "full"` under [runtimes] in the paddock.toml '
        "of the user or the system",
        "Decided by",
        lines[3],
        "Hidden files",
        ".env",
        "Rules that match",
        "No rule matches this request.",
        "Checks, in their order",
        "agrees programs run at all",
        "agrees the runtime is allowed, the executable fits it",
        "agrees the executable is allowed",
        "agrees the executable is a name",
        "agrees the working directory is inside of the workspace",
        "agrees the limits are within their maximum",
        "objects workspace and network are granted",
    ]


def test_a_setting_that_decides_is_shown_with_its_line(page, place):
    lines = page.try_(kind="runtime", runtime="python", network="full")
    assert lines[3] == f"runtimes.network {user_file(place, 2)}"


def test_a_rule_of_the_workspace_is_shown_with_its_file(page, place):
    lines = page.try_(kind="runtime", runtime="ruby")
    assert lines[:4] == [
        "Denied.",
        "<b>no ruby</b>",
        "Decided by",
        f"workspace rule 1 {place.workspace}/paddock.toml, line 1",
    ]


def test_a_time_limit_above_the_maximum_comes_with_the_remedy(page):
    lines = page.try_(kind="runtime", runtime="python", timeout_ms="60000")
    assert lines[:3] == [
        "Denied.",
        "Requested timeout (60000ms) exceeds maximum (30000ms)",
        "What to do: ask for at most 30000 ms, or raise `runtimes.timeout_ms` in paddock.toml",
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"host": "api.example.com"}, ["Allowed."]),
        ({"host": "api.example.com", "http_method": "GET", "path": "/v1"}, ["Allowed."]),
        (
            {"host": "api.example.com", "http_method": "POST", "path": "/v1"},
            [
                "Denied.",
                "POST api.example.com:443/v1 is not allowed by any of the user network rules; add its method to "
                "`methods` of network rule 1 in the user's paddock.toml",
            ],
        ),
        (
            {"host": "evil.example"},
            [
                "Denied.",
                'no rule allows evil.example; add a [[network.rule]] with host = "evil.example" and '
                'effect = "allow" to the user\'s paddock.toml',
            ],
        ),
        (
            {"host": "api.example.com", "port": "8443"},
            [
                "Denied.",
                "api.example.com:8443 is not allowed by any of the user network rules; add a [[network.rule]] with "
                'host = "api.example.com", effect = "allow" and ports = [8443] to the user\'s paddock.toml',
            ],
        ),
    ],
)
def test_a_host_is_decided_with_port_method_and_path(page, fields, told):
    lines = page.try_(kind="host", **fields)
    assert lines[: lines.index("Decided by")] == told


def test_values_of_headers_that_rules_add_are_not_shown(page, place):
    html = page.open(**{"kind": "host", "host": "api.example.com", "try": "1"})
    assert "secret-of-the-rule" not in html
    assert (
        f'user network rule 1 decides | allow | host = "api.example.com", effect = "allow", methods = ["GET"] | '
        f"{user_file(place, 13)}"
    ) in read_lines(html)


@pytest.mark.parametrize(
    ("path", "access", "told"),
    [
        ("main.py", "read-only", ["Allowed."]),
        (
            "main.py",
            "workspace-write",
            [
                "Denied.",
                "access workspace-write to the workspace is not granted (granted: read-only); set "
                '`access = "workspace-write"` under [runtimes] in the paddock.toml of the user or the system',
            ],
        ),
        (
            ".env",
            "read-only",
            [
                "Denied.",
                "No program can read, change or remove it: .env of workspace.hide hides it. To show it, add it to "
                "workspace.show in the settings of the user.",
            ],
        ),
        (
            "deep/id_rsa",
            "read-only",
            [
                "Denied.",
                "No program can read, change or remove it: id_rsa of workspace.hide hides it once it exists. To show "
                "it, add it to workspace.show in the settings of the user.",
                "It does not exist.",
            ],
        ),
        (
            "paddock.toml",
            "read-only",
            [
                "Allowed.",
                "It is protected: programs may read it, and it stays as it is. To let programs change it, name it in "
                "sandbox.unprotected in the settings of the user.",
            ],
        ),
        (
            "out",
            "read-only",
            ["Denied.", "The path leads out of the workspace, and no program can follow it."],
        ),
    ],
)
def test_a_path_is_hidden_protected_or_granted(page, place, path, access, told):
    (place.workspace / "out").symlink_to("/etc/passwd")
    lines = page.try_(kind="path", path=path, access=access)
    assert lines[: lines.index("Decided by")] == told


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"kind": "sdk", "method": "vault.get"},
            "paddock.vault.get is not granted to programs of the profile execute; name it in `execute` under [sdk] in "
            "paddock.toml",
        ),
        (
            {"kind": "guest", "jit": "1"},
            "just-in-time compilation is not granted; run without it, or set `jit = true` under [grants] in the "
            "paddock.toml of the user or the system",
        ),
        (
            {"kind": "tool", "tool": "report", "network": "full"},
            "tool report declares network: full, but loopback is allowed; set `network` under [tools] in the "
            "paddock.toml of the user or the system",
        ),
    ],
)
def test_other_work_can_be_tried(page, fields, told):
    lines = page.try_(**fields)
    assert lines[:2] == ["Denied.", told]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "server", "server": "", "tool": "x"}, "the field `server` is empty"),
        (
            {"kind": "server", "server": "odd", "tool": "x", "arguments": "["},
            "the arguments are not JSON: Expecting value: line 1 column 2 (char 1)",
        ),
        (
            {"kind": "server", "server": "odd", "tool": "x", "arguments": "[1]"},
            "the arguments are a JSON object",
        ),
        ({"kind": "host", "host": "a b"}, 'hosts.0: "a b" is not the name of a host'),
        ({"kind": "host", "host": "a.example", "port": "70000"}, "a port is 1 to 65535"),
        ({"kind": "host", "host": "a.example", "port": "x"}, "the port is a whole number"),
        ({"kind": "path", "path": "../x"}, "a path of the workspace is relative to it, and has no `..`"),
        (
            {"kind": "path", "path": "/etc/passwd"},
            "a path of the workspace is relative to it, and has no `..`",
        ),
        ({"kind": "path", "path": "."}, "name a file or a folder of the workspace"),
        ({"kind": "runtime", "actor": "nobody"}, "there is no token 'nobody'"),
        ({"kind": "runtime", "timeout_ms": "1"}, "a program's timeout is 100 to 600000 ms, not 1"),
    ],
)
def test_a_form_that_cannot_be_tried_says_why(page, fields, told):
    lines = page.try_(**fields)
    assert lines == [told]


def test_the_policy_stands_in_sentences_with_their_sources(page, place):
    lines = read_lines(page.open())
    start = lines.index("What an agent may do")
    shown = [line for line in lines[start:] if str(place.home) in line or str(place.workspace) in line]
    assert shown == [
        f"They may connect only to hosts that a rule allows. runtimes.network {user_file(place, 2)}",
        'A call of a server with tool "odd/crash*" is denied (crashes are for tests). user rule 1 '
        f"{user_file(place, 4)}",
        f'A call of a server with server "odd" waits for a person. user rule 2 {user_file(place, 9)}',
        'A program in another language with runtime "ruby" is denied (<b>no ruby</b>). workspace rule 1 '
        f"{place.workspace}/paddock.toml, line 1",
        "Sending to api.example.com with GET is allowed, with added Authorization. user network rule 1 "
        f"{user_file(place, 13)}",
        "A call that can send data to others is denied once its run has read private data. user flow rule 1 "
        f"{user_file(place, 24)}",
        f'Calls with server "odd" return private data and can send data to others. flow.label {user_file(place, 19)}',
    ]


def test_the_owner_tries_as_a_user_of_the_server(place):
    place.make_token("alice", "--policy", "runtimes.network=none")
    with place.serve_page() as server, server.client(server.log_in()) as client:
        page = Page(client)
        mine = page.try_(kind="runtime", network="loopback")
        hers = page.try_(kind="runtime", network="loopback", actor="alice")
        sentences = read_lines(page.open(actor="alice"))
    assert (mine[0], hers[:2]) == (
        "Allowed.",
        [
            "Denied.",
            'network loopback is not granted (granted: none); set `network = "loopback"` under [runtimes] in the '
            "paddock.toml of the user or the system",
        ],
    )
    assert "What an agent may do with the token alice" in sentences
    assert any(line.startswith("They have no network.") for line in sentences)


def test_a_user_sees_their_own_policy_without_files_and_keys(place):
    place.settings(
        SETTINGS + f'\n[[policy.rule]]\neffect = "deny"\nworkspace = "{place.workspace}"\nruntime = "perl"\n'
    )
    token = place.make_token("alice", "--policy", "runtimes.network=none")
    with place.serve_api_with_page() as server, server.client() as client:
        assert client.post("/login", data={"token": token}).status_code == 303
        page = Page(client)
        tried = page.try_(kind="server", server="odd", tool="echo")
        as_owner = page.try_(kind="runtime", network="loopback", actor="")
        html = page.open(**{"kind": "runtime", "runtime": "perl", "try": "1"})
    assert tried == [
        "A person is asked first.",
        "odd/echo needs a person's approval, says user rule 2",
        "Decided by",
        "user rule 2",
        "Flow of data",
        "denied once its run has read private data, says user flow rule 1",
        "its results count as private",
        "Rules that match",
        "Rule | Effect",
        "user rule 2 decides | ask",
        "user flow rule 1 | deny",
        "Checks, in their order",
        "agrees rules and grants of the settings",
    ]
    assert as_owner[0] == "Denied."
    assert str(place.workspace) not in html
    assert str(place.home) not in html
    assert "Actor" not in html


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onfocus=alert(1) autofocus x='",
    "{{ 7 * 7 }}",
    "\x1b[2J\u202e\u2066",
    "</textarea></select></option>",
    "%00%0d%0aSet-Cookie: a=b",
    "x" * 2_000,
)


@pytest.mark.parametrize("kind", ["runtime", "guest", "server", "tool", "sdk", "host", "path"])
def test_what_a_link_puts_into_the_form_is_inert(page, kind):
    names = ("runtime", "executable", "cwd", "access", "network", "hosts", "timeout_ms", "server", "tool")
    names += ("arguments", "method", "host", "port", "http_method", "path", "surface", "actor", "kind")
    plain = list_attributes(page.open(**{**dict.fromkeys(names, "x"), "kind": kind, "try": "1"}))
    plain |= list_attributes(
        page.open(kind=kind, host="a.example", path="x", server="a", tool="x", method="x", **{"try": "1"})
    )
    for text in HOSTILE:
        html = page.open(**{**dict.fromkeys(names[:-1], text), "kind": kind, "try": "1"})
        assert list_attributes(html) - plain == set()
        assert set(html).isdisjoint("\x1b")
        assert len(html) < 150_000
