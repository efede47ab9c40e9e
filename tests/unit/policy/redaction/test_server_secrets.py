"""What lets somebody in at a server is in no result of it, and what does not is left alone."""

import json

import pytest

from paddock.engines.servers.config import load_servers
from paddock.policy.redaction.known import NO_SECRETS, ServerSecrets, is_credential

CREDENTIALS = {
    "GITHUB_TOKEN": "ghx-12345678",
    "GITHUB_PERSONAL_ACCESS_TOKEN": "ghx-12345678",
    "OPENAI_API_KEY": "0x12345678",
    "AWS_SECRET_ACCESS_KEY": "abcdefgh",
    "AWS_ACCESS_KEY_ID": "AKabcdef",
    "PGPASSWORD": "hunter2hunter2",
    "DB_PASSWORD": "p@ss/word",
    "githubToken": "tok-12345",
    "Authorization": "Bearer abcdef",
    "X-API-Key": "12345abcde",
    "client_secret": "s3cr3ts3cr3t",
    "DATABASE_PASSWD": "postgres://u:p@h/x",
}
OTHERS = {
    "HOME": "/home/somebody",
    "GITHUB_TOKEN": "short",
    "GOOGLE_APPLICATION_CREDENTIALS": "/etc/keys.json",
    "TOKEN_FILE": "./token.txt",
    "TOKENIZER": "cl100k_base",
    "MAX_TOKENS": "many-many",
    "TOKEN_LIMIT": "100000000",
    "SORT_KEY": "created_at",
    "MONKEY": "chimpanzee",
    "SECRET_URL": "https://vault.example/v1",
    "Accept": "application/json",
}


def test_credentials_are_told_by_their_names_and_their_looks():
    assert {name: is_credential(name, value) for name, value in CREDENTIALS.items()} == dict.fromkeys(
        CREDENTIALS, True
    )
    assert {name: is_credential(name, value) for name, value in OTHERS.items()} == dict.fromkeys(
        OTHERS, False
    )


@pytest.mark.parametrize("secret", ["tok-12345", 'quo"te\\d', "zeile\nzwei", "schlüssel-ü"])
def test_a_result_holds_no_secret_in_its_texts_and_names(secret):
    value = {
        "content": [{"text": f"it is {secret}."}, 1, None],
        secret: [secret],
        "big": 10**30,
        "half": "\ud800",
    }
    hidden = {
        "content": [{"text": "it is [REDACTED:server]."}, 1, None],
        "[REDACTED:server]": ["[REDACTED:server]"],
        "big": 10**30,
        "half": "\ud800",
    }
    assert ServerSecrets([secret]).hide_in(value) == hidden
    assert ServerSecrets(["other-secret"]).hide_in(value) is value
    assert NO_SECRETS.hide_in(value) is value


def test_the_servers_file_says_which_of_its_secrets_let_somebody_in(tmp_path):
    servers = {
        "local": {"command": "x", "args": ["${ROOT}"], "env": {"A_TOKEN": "own-token", "WHERE": "${ROOT}", "NAME": "some-name"}},
        "arguments": {"command": "x", "args": ["--as", "${TOKEN}", "--in", "${ROOT}"]},
        "blank": {"url": "https://web.example/mcp?token=++++++++", "headers": {"X-Token": "        "}},
        "web": {
            "url": "https://me:pass-word@web.example/mcp?api_key=query-key&project=paddock-one",
            "headers": {"X-Api-Key": "${TOKEN}", "Cookie": "id=12345678", "Accept-Language": "de-DE, de"},
        },
    }  # fmt: skip
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    found = load_servers(file, {"TOKEN": "tok-12345", "ROOT": "/home/somebody"}).servers
    assert found["local"].credentials == ServerSecrets(["own-token"])
    assert found["blank"].credentials == ServerSecrets(["        "])
    assert found["arguments"].credentials == ServerSecrets(["tok-12345"])
    text = "tok-12345 id=12345678 pass-word query-key paddock-one de-DE bWU6cGFzcy13b3Jk"
    assert found["web"].credentials.hide(text) == (
        "[REDACTED:server] [REDACTED:server] [REDACTED:server] [REDACTED:server] paddock-one de-DE [REDACTED:server]"
    )


def test_a_secret_that_looks_like_json_leaves_the_result_what_it_is():
    secrets = ServerSecrets(["true", "3000", "nabc"])
    assert secrets.hide_in({"retry": True, "port": 3000, "text": "a\nabc", "said": "true"}) == {
        "retry": True,
        "port": "[REDACTED:server]",
        "text": "a\nabc",
        "said": "[REDACTED:server]",
    }
