"""The member `paddock` of an entry: whatever is not exactly right leaves the server out, never unconfined."""

import json

import pytest

from paddock.engines.servers.config import load_servers
from paddock.engines.servers.confinement import Confinement


def load(tmp_path, **members):
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"s": {"command": "x", **members}}}))
    config = load_servers(path, {})
    prefix = f"{path}: server 's': "
    return config.servers.get("s"), [text.removeprefix(prefix) for text in config.warnings]


@pytest.mark.parametrize(
    ("confine", "confinement"),
    [
        ({}, Confinement()),
        ({"network": "loopback"}, Confinement("loopback")),
        ({"network": "full", "read": ["."]}, Confinement("full", read=(".",))),
        (
            {"network": ["API.example.com", "*.example.org", "api.example.com"]},
            Confinement("hosts", ("api.example.com", "*.example.org")),
        ),
        (
            {"read": ["src", "/opt/server", "~/data"], "write": ["data"]},
            Confinement(read=("src", "/opt/server", "~/data"), write="data"),
        ),
    ],
)
def test_the_grants_of_an_entry(tmp_path, confine, confinement):
    server, warnings = load(tmp_path, paddock={"confine": confine})
    assert (server.confine, warnings) == (confinement, [])


def test_a_server_is_confined_only_by_its_entry(tmp_path):
    assert [load(tmp_path, **each)[0].confine for each in ({}, {"paddock": {}}, {"paddock": None})] == [
        None
    ] * 3


INSIDE = "must be a path inside of the workspace, without `..`"
NETWORK = "must be one of none, loopback, full, or a list of hosts"


@pytest.mark.parametrize(
    ("members", "warning"),
    [
        ({"confine": {}}, '`confine`: belongs into `paddock`: write "paddock": {"confine": {...}}'),
        ({"paddock": {"confined": {}}}, "`paddock.confined`: is unknown; did you mean `confine`?"),
        ({"paddock": {"confine": None}}, "`paddock.confine`: must be an object"),
        ({"paddock": {"confine": True}}, "`paddock.confine`: must be an object"),
        ({"paddock": "confine"}, "`paddock`: must be an object"),
        (
            {"paddock": {"confine": {"reads": ["."]}}},
            "`paddock.confine.reads`: is unknown; did you mean `read`?",
        ),
        ({"paddock": {"confine": {"network": "hosts"}}}, f"`paddock.confine.network`: {NETWORK}"),
        ({"paddock": {"confine": {"network": None}}}, f"`paddock.confine.network`: {NETWORK}"),
        (
            {"paddock": {"confine": {"network": []}}},
            '`paddock.confine.network`: must name 1 to 100 hosts; write "none" for no network',
        ),
        (
            {"paddock": {"confine": {"network": [1]}}},
            '`paddock.confine.network`: must be a list of hosts in "quotes"',
        ),
        ({"paddock": {"confine": {"read": "."}}}, "`paddock.confine.read`: must be a list of texts"),
        ({"paddock": {"confine": {"read": ["../x"]}}}, f"`paddock.confine.read`: '../x' {INSIDE}"),
        ({"paddock": {"confine": {"read": ["~root/x"]}}}, f"`paddock.confine.read`: '~root/x' {INSIDE}"),
        ({"paddock": {"confine": {"write": ["/tmp"]}}}, f"`paddock.confine.write`: '/tmp' {INSIDE}"),
        (
            {"paddock": {"confine": {"write": ["a/../../b"]}}},
            f"`paddock.confine.write`: 'a/../../b' {INSIDE}",
        ),
        (
            {"paddock": {"confine": {"write": ["a", "b"]}}},
            '`paddock.confine.write`: must be one directory of the workspace, such as ["data"], or ["."] for the '
            "whole workspace",
        ),
        (
            {"paddock": {"confine": {"write": ["sub/.git"]}}},
            "`paddock.confine.write`: 'sub/.git' cannot be granted: programs of the user read settings in directories "
            "that begin with a dot; grant another directory",
        ),
        (
            {"paddock": {"confine": {"read": ["a\nb"]}}},
            "`paddock.confine.read`: must be a list of paths; one is empty or contains a control character",
        ),
    ],
)
def test_an_entry_with_a_fault_is_left_out(tmp_path, members, warning):
    assert load(tmp_path, **members) == (None, [f"{warning}; skipped."])


def test_a_server_with_an_address_is_not_confined(tmp_path):
    members = {"command": None, "url": "http://127.0.0.1:1/", "paddock": {"confine": {}}}
    assert load(tmp_path, **members) == (
        None,
        ["`paddock.confine` is for servers with a `command`; skipped."],
    )
