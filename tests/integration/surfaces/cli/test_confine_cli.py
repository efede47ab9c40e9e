"""`paddock servers confine`: how a server is confined, and what one observed start proposes."""

import json
import shutil

import pytest
from tests.support.command import make_environment, run_paddock
from tests.support.servers import FOLDER, write_servers

CONNECTS = """
import urllib.error, urllib.request
for address in ("http://api.example.com:8080/", "http://api.example.com:8080/again", "http://other.example:443/"):
    try:
        urllib.request.urlopen(address)
    except urllib.error.URLError:
        pass
exec(open("hostile.py").read())
"""
NOTES = [
    'api.example.com:8080 also needs a [[network.rule]] with host = "api.example.com", effect = "allow" and ports = [8080] in the '
    "user's paddock.toml",
    "only the start of the server and the listing of its tools were observed: a call may connect to further hosts",
    "refused files are not observed; if a tool reports one, add its path to `read` or its directory to `write`",
]


@pytest.fixture
def paddock(tmp_path):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    shutil.copy(FOLDER / "hostile.py", workspace)
    (workspace / "connects.py").write_text(CONNECTS)
    plain = {"command": "/usr/bin/python3", "args": ["connects.py"], "timeoutMs": 3_600_000}
    confine = {"network": ["a.example"], "read": ["."], "write": ["data"]}
    servers = {
        "plain": plain,
        "inside": {**plain, "paddock": {"confine": confine}},
        "broken": {**plain, "args": ["none.py"]},
        "far": {"url": "http://127.0.0.1:1/"},
    }
    write_servers(workspace, servers)
    environment = make_environment(tmp_path / "home")

    def paddock(*arguments):
        return run_paddock(workspace, "servers", *arguments, environment=environment)

    return paddock


def test_servers_are_listed_with_how_they_are_confined(paddock):
    code, output, errors = paddock("list")
    assert (code, output.splitlines()[:2], errors) == (
        0,
        ["plain\tstdio\t/usr/bin/python3\t", "inside\tstdio, confined\t/usr/bin/python3\t"],
        "",
    )
    listed = json.loads(paddock("list", "--json").stdout)
    assert [(each["transport"], each["confine"]) for each in listed] == [
        ("stdio", None),
        ("stdio", {"network": ["a.example"], "read": ["."], "write": ["data"]}),
        ("stdio", None),
        ("http", None),
    ]


def test_how_a_server_is_confined(paddock):
    confine = {"network": ["a.example"], "read": ["."], "write": ["data"]}
    assert paddock("confine", "inside") == (
        0,
        "inside is confined: network a.example; read .; write data\n",
        "",
    )
    assert json.loads(paddock("confine", "inside", "--json").stdout) == {
        "server": "inside",
        "confine": confine,
    }
    assert paddock("confine", "plain") == (
        0,
        "plain is not confined\n",
        "A server runs as you, unless its entry confines it. A member like this confines it to what it names. With "
        "--suggest, Paddock starts the server once and proposes the member.\n"
        '{"paddock": {"confine": {"network": "none", "read": ["."], "write": []}}}\n',
    )
    assert paddock("confine", "far") == (
        1,
        "",
        "far is reached by its address; only a server with a `command` can be confined\n",
    )
    assert paddock("confine", "plane") == (1, "", "Unknown server: plane; did you mean `plain`?\n")


def test_the_grants_that_one_start_proposes(paddock):
    code, output, errors = paddock("confine", "plain", "--suggest", "--json")
    found = json.loads(output)
    assert (code, errors) == (0, "")
    refused = found.pop("refused")
    assert [(each["host"], each["port"]) for each in refused] == [
        ("api.example.com", 8080),
        ("other.example", 443),
    ]
    entry = {"confine": {"network": ["api.example.com", "other.example"], "read": ["."], "write": []}}
    assert found == {
        "server": "plain",
        "error": None,
        "tools": ["attack"],
        "notes": NOTES,
        "entry": {"paddock": entry},
    }


def test_a_server_that_does_not_start_confined(paddock):
    code, output, errors = paddock("confine", "broken", "--suggest")
    assert code == 1
    assert json.loads(output) == {"paddock": {"confine": {"network": "none", "read": ["."], "write": []}}}
    assert "broken does not work with this member yet: " in errors
