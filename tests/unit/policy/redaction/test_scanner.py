"""What is a secret, what is not, and that hostile text costs linear time."""

import json
import time
from ast import literal_eval

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.policy.redaction import scanner, values
from paddock.policy.redaction.outgoing import Removal
from paddock.policy.redaction.rules import may_match
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import RedactionSettings

BODY = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
TOKEN = "ghp_" + "a1" * 18
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0" + ".c2lnbmF0dXJl"
DEFAULT = Scanner(RedactionSettings())
ANSWER = Scanner(RedactionSettings(), profile="answer")


def redact(text: str, scanner: Scanner = DEFAULT) -> str:
    return Removal(scanner).text(text)


def redact_json(value: object, scanner: Scanner = DEFAULT) -> object:
    return Removal(scanner).json(value)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"use {TOKEN}.", "use [REDACTED:KEY]."),
        (f"a={JWT};", "a=[REDACTED:JWT];"),
        (f"x{JWT}", "x[REDACTED:JWT]"),
        ("sk-" + "a" * 20, "[REDACTED:KEY]"),
        ("sk-" + "a" * 19, "sk-" + "a" * 19),
        ("xoxb-1234567890-abc", "[REDACTED:KEY]"),
        ("AKIA" + "IOSFODNN7EXAMPLE ASIA" + "IOSFODNN7EXAMPLE", "[REDACTED:KEY] [REDACTED:KEY]"),
        ('{"password":"x"}', '{"password":"[REDACTED:VALUE]"}'),
        ('{"Password" : "a\\"b", "n": 1}', '{"Password" : "[REDACTED:VALUE]", "n": 1}'),
        ('{"api_key":"x","apiKey":"y"}', '{"api_key":"[REDACTED:VALUE]","apiKey":"[REDACTED:VALUE]"}'),
        ('{"token":null,"secret":{"a":1}}', '{"token":null,"secret":{"a":1}}'),
        ('{"password":"cut of', '{"password":"[REDACTED:VALUE]'),
        ('{"passwords":"x","my_token":"x"}', '{"passwords":"x","my_token":"x"}'),
        ("eyJ is how a token begins. eyJx.y", "eyJ is how a token begins. eyJx.y"),
    ],
)
def test_x36_the_compatible_profile_keeps_its_rules_and_marks(text: str, redacted: str) -> None:
    assert redact(text, ANSWER) == redacted


def test_x36_json_values_of_the_compatible_profile() -> None:
    value = {
        "authorization": "Bearer x",
        "list": [TOKEN, 1, None, True],
        "token": ["a", 2, {"b": "c"}],
        "credential": {"kind": "text", "private_key": "x", "secret": False},
        TOKEN: 1.5,
    }
    before = json.dumps(value)
    assert redact_json(value, ANSWER) == {
        "authorization": "[REDACTED:VALUE]",
        "list": ["[REDACTED:KEY]", 1, None, True],
        "token": ["[REDACTED:VALUE]", 2, {"b": "c"}],
        "credential": {"kind": "text", "private_key": "[REDACTED:VALUE]", "secret": False},
        "[REDACTED:KEY]": 1.5,
    }
    assert json.dumps(value) == before


SHAPES = {
    "aws-access-key": "AKIA" + "IOSFODNN7ABCDEFG",
    "github-token": "ghp_" + BODY[:36],
    "api-key": "sk-proj-" + BODY,
    "slack-token": "xoxb-123456789012-" + BODY[:24],
    "jwt": JWT,
    "gitlab-token": "glpat-" + BODY[:20],
    "paddock-token": "pdk_" + (BODY + BODY)[:43],
    "stripe-key": "sk_live_" + BODY[:24],
    "google-api-key": "AIzaSyA" + BODY[:32],
    "npm-token": "npm_" + BODY[:36],
    "pypi-token": "pypi-AgEIcHlwaS5vcmcC" + BODY + BODY,
    "sendgrid-key": "SG." + BODY[:22] + "." + BODY + "abc",
    "huggingface-token": "hf_" + BODY[:34],
    "digitalocean-token": "dop_v1_" + "0a1b2c3d" * 8,
    "vault-token": "hvs." + BODY,
    "google-oauth": "ya29." + BODY,
}
"""Well-known secrets that stand alone, by the rule that removes them."""

PLACES = ["{}", "x {} y", "<{}>", "({}),", "'{}'.", "`{}`", "a={};", "\t{}\r", "é{}", "k: {}\\n"]
NAMED = [
    *(
        "password={}",
        "PASSWORD: {}",
        "db_password = {}",
        "passwd={} ",
        "secret = '{}'",
        'api_key = "{}"',
        "apiKey: `{}`",
    ),
    *(
        '{{"client_secret": "{}"}}',
        "{{'token': '{}'}}",
        '{{\\"token\\": \\"{}\\"}}',
        '"secret" => "{}"',
        "SECRET_KEY='{}'",
    ),
    *(
        "X-Api-Key: {}",
        "?access_token={}&x=1",
        "--token {} -x",
        '["--password", "{}"]',
        "password := {}",
        "token={}, next",
    ),
    *(
        "Authorization: Bearer {}",
        'AUTHORIZATION="Bearer {}"',
        "authorization: token {}",
        "<password>{0}</password> token={0}",
    ),
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rule", SHAPES)
def test_a_well_known_secret_is_removed_wherever_it_stands(rule: str, place: str) -> None:
    removal = Removal(DEFAULT)
    assert removal.text(place.format(SHAPES[rule])) == place.format(f"[REDACTED:{rule}]")
    assert removal.count == 1
    assert removal.json({"k": [place.format(SHAPES[rule])]}) == {"k": [place.format(f"[REDACTED:{rule}]")]}


@pytest.mark.parametrize("place", NAMED)
@pytest.mark.parametrize(
    "value", [BODY, "0a1b2c3d-4e5f-6a7b-8c9d-0a1b2c3d4e5f", "aB3xK9mQ2pL7", "xK9/mQ2+pL7zR4w=="]
)
def test_a_random_value_with_a_name_is_removed(place: str, value: str) -> None:
    assert value.rstrip("=") not in redact(place.format(value)).replace("<password>" + value, "")


@pytest.mark.parametrize(
    "value", ["hunter2secret", "hunter2", "Summer2024!", "p4ssw0rd!x", "Tr0ub4dor&3", "qwerty123"]
)
def test_a_chosen_password_with_a_name_is_removed(value: str) -> None:
    assert redact(f'{{"password": "{value}"}}') == '{"password": "[REDACTED:secret]"}'
    assert redact_json({"password": value}) == {"password": "[REDACTED:secret]"}


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://ada:{}@example.com/",
            "postgres://u:{}@db:5432/x",
            "redis://:{}@cache",
            "amqp+ssl://a.b:{}@h",
        ),
        "git clone https://oauth2:{}@git.example.com/x.git",
    ],
)
def test_the_password_of_an_address_is_removed(url: str) -> None:
    assert redact(url.format("hunter2secret")) == url.format("[REDACTED:url-password]")
    assert redact(url.format("correct-horse")) == url.format("[REDACTED:url-password]")


def test_the_secret_part_of_a_webhook_is_removed() -> None:
    url = "https://hooks.slack.com/services/T00000000/B00000000/" + BODY[:24]
    assert redact(url) == "https://hooks.slack.com/services/[REDACTED:slack-webhook]"


def test_names_decide_about_values_in_json_as_in_a_text() -> None:
    value = {
        "password": "hunter2secret",
        "tokens": [BODY, "plain"],
        "nested": [{"api_key": BODY, "api_key_name": "main"}],
        "adobe": {"secret": "0a1b2c3d" * 4},
        "sentry_dsn": "0a1b2c3d" * 8,
        "private_key": "-----BEGIN PRIVATE KEY-----\n" + BODY + "\n-----END PRIVATE KEY-----\n",
        "secret": 'say "hi" 2 me',
        "token": 12345,
        "token_type": "bearer",
    }
    expected = {
        "password": "[REDACTED:secret]",
        "tokens": ["[REDACTED:secret]", "plain"],
        "nested": [{"api_key": "[REDACTED:secret]", "api_key_name": "main"}],
        "adobe": {"secret": "[REDACTED:secret]"},
        "sentry_dsn": "[REDACTED:sentry-access-token]",
        "private_key": "-----BEGIN PRIVATE KEY-----\n[REDACTED:private-key]\n-----END PRIVATE KEY-----\n",
        "secret": 'say "hi" 2 me',
        "token": 12345,
        "token_type": "bearer",
    }
    removal = Removal(DEFAULT)
    assert removal.json(value) == expected
    assert removal.count == 6


@given(
    st.sampled_from(["password", "token", "apiKey", "client_secret", "adobe", "note", "sentry_key"]),
    st.text(alphabet=st.sampled_from("abzXYZ019-_./+=@:$ "), max_size=40)
    | st.sampled_from([BODY, "hunter2secret", "0a1b2c3d" * 4, "0a1b2c3d" * 8, TOKEN, "None", "str"]),
)
def test_a_member_is_decided_as_its_text(name: str, value: str) -> None:
    assert json.loads(redact(json.dumps({name: value}))) == redact_json({name: value})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"password": [["hunter2secret"]]}, {"password": [["[REDACTED:secret]"]]}),
        (
            {"tokens": [["a", ["b", 1, None, BODY]], "plain text", BODY], "names": [BODY]},
            {
                "tokens": [["a", ["b", 1, None, "[REDACTED:secret]"]], "plain text", "[REDACTED:secret]"],
                "names": [BODY],
            },
        ),
        ({"token": [], "name": BODY}, {"token": [], "name": BODY}),
        ({"token": ["plain"], BODY: 1}, {"token": ["plain"], BODY: 1}),
    ],
)
def test_the_name_of_a_list_decides_about_its_texts_in_json_as_in_a_text(
    value: object, expected: object
) -> None:
    assert redact_json(value) == expected
    assert json.loads(redact(json.dumps(value))) == expected
    assert json.loads(redact(json.dumps(value, separators=(",", ":")))) == expected
    assert json.loads(json.loads(redact(json.dumps(json.dumps(value))))) == expected
    assert literal_eval(redact(repr(value))) == expected


@given(
    st.recursive(
        st.none() | st.integers() | st.sampled_from([BODY, "hunter2secret", "plain", "", "a b", "]", "["]),
        lambda inner: st.lists(inner, max_size=3),
    )
)
@example(-1_848_909_869_115_012)
@example(1_849_253_455_804_560)
@example([-1_848_909_869_115_012, -1.5, [-12345678e-9]])
def test_a_list_of_lists_is_decided_as_its_text(value: object) -> None:
    assert json.loads(redact(json.dumps({"password": [value]}))) == redact_json({"password": [value]})


def test_a_password_of_digits_is_removed_where_it_is_no_number_of_json() -> None:
    assert redact("PASSWORD=1849253455804560") == "PASSWORD=[REDACTED:secret]"
    assert redact('{"password": 1849253455804560, "b": 1}') == '{"password": 1849253455804560, "b": 1}'


def test_depth_is_no_problem() -> None:
    value: object = TOKEN
    for _ in range(100_000):
        value = [value]
    found = redact_json(value)
    while isinstance(found, list):
        value, found = None, found[0]
    assert found == "[REDACTED:github-token]"


@pytest.mark.parametrize(
    "text",
    [
        "path/secret: No such file or directory",
        "cat: secrets/token: No such file or directory",
        "api_key = None",
        'password: str = "default-value"',
        'password = request.form["password"]',
        "token: Optional[str] = None",
        "token = secrets.token_urlsafe(32)",
        "secret = hashlib.sha256(data).hexdigest()",
        'api_key = os.environ["OPENAI_API_KEY"]',
        "password=${DB_PASSWORD} token=$TOKEN secret={{ vault.secret }}",
        'token_url = "https://login.example.com/oauth2/v2.0/token"',
        "password: <your password here>  # token: ********",
        "access_token_expires: 2024-01-01T00:00:00Z",
        "max_tokens=4096, tokens: 12345, token_count = 17",
        "secret_name: my-secret-v2, secret = base64",
        "https://github.com/user/repo@v1.2.3 mailto:a@b.example http://localhost:8080/@x",
        "postgres://user:password@localhost/db redis://:${PASSWORD}@h",
        ".sk-folding-cube-animation-container { }",
        "-----BEGIN PRIVATE KEY-----",
        'if text.startswith("-----BEGIN PRIVATE KEY-----"):',
        "Basic authentication, Bearer authorization, bearer token",
        "discord_channel: 123456789012345678",
    ],
)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    removal = Removal(DEFAULT)
    assert (removal.text(text), removal.count) == (text, 0)
    assert redact_json({"text": text}) == {"text": text}


def test_a_mark_is_no_place_to_hide() -> None:
    assert redact(f"[REDACTED:{TOKEN}]") == "[REDACTED:[REDACTED:github-token]]"
    assert (
        redact("[REDACTED:hunter] password=hunter2secret") == "[REDACTED:hunter] password=[REDACTED:secret]"
    )


ATOMS = [
    *(
        TOKEN,
        JWT,
        "eyJ",
        ".",
        "sk-",
        '"password":',
        '"',
        "\\",
        '\\"token\\":',
        " ",
        "a",
        "AKIA",
        "xoxb-",
        "1",
        "=",
        "token=",
    ),
    *(BODY, "[REDACTED:secret]", "https://", ":", "@", "bearer ", "adobe:"),
]
texts = st.lists(st.sampled_from(ATOMS) | st.text(max_size=3), max_size=20).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "token", "apiKey"]), inner, max_size=3)
    ),
)


@given(texts, texts)
def test_no_known_secret_survives(before: str, after: str) -> None:
    for secret in (TOKEN, JWT, "sk-" + "Z" * 24):
        assert secret not in redact(f"{before} {secret} {after}")


@given(json_values)
def test_json_keeps_its_shape_and_redacting_twice_changes_nothing_more(value: object) -> None:
    once = redact_json(value)
    assert redact_json(once) == once
    assert json.loads(json.dumps(once)) == once


@given(texts)
def test_what_surely_holds_no_secret_stays_as_it_is(text: str) -> None:
    assert may_match(text.encode("utf-8", "surrogatepass")) or redact(text) == text


@given(st.text(alphabet="abc \n{}[],:", max_size=100))
def test_letters_and_brackets_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *ATOMS,
        *(
            "eyJa.",
            "eyJ.",
            "sk-a",
            '"password": ',
            '"password":"',
            '\\"token\\":\\"',
            '\\\\"',
            "a.",
            '"token":"\\',
        ),
        *(
            "token=aaaaaa=",
            "token:token:",
            '"token":"a=b:c',
            "https://a:b",
            "-----BEGIN PRIVATE KEY-----",
            "\r",
            "token=\n",
        ),
        *("password=password=", "pwd=a1b2c3 ", "kraken=", "pwd=[\"pwd=['", "pwd=['pwd=[',", 'pwd=["abcdef",'),
        *(
            "-----BEGIN PRIVATE KEY-----\\n",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n",
            "\x1b[31mghp_",
            "pwd=\x1b[0ma1b2c3 ",
            "pwd=\x1b]8;a1b2c3 ",
            "pwd=\x1b]8;;http://a",
            "\\\\\\/",
            "token=\\\\/",
        ),
        *("password=hunter2secret ", "bearer bearer ", "[REDACTED:secret]", "ghp_", "\\n\\n"),
    ],
)
def test_hostile_text_costs_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    redact(text)
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    "start", ["ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "sk-", "xoxa-", "xoxp-"]
)
def test_every_kind_of_key_is_found(start: str) -> None:
    found = redact(f"key: {start}{'A1' * 12}\n")
    assert (found[:15], found[-2:]) == ("key: [REDACTED:", "]\n")
    assert redact(start) == start


@pytest.mark.parametrize("piece", ["password=password=", "token: string, ", '{"token_type": "bearer"}'])
def test_the_same_candidate_is_refused_once(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[values.FoundValue] = []

    def judge(value: values.FoundValue) -> bool:
        judged.append(value)
        return values.is_secret(value)

    monkeypatch.setitem(values.CHECKS, "value", judge)
    assert redact(piece * 1000) == piece * 1000
    assert len(judged) <= 3


@pytest.mark.parametrize(
    ("text", "candidates"),
    [("password=password=" * 1000, 1000), ("password=hunter2secret " * 1000, 1000), ("kraken=" * 1000, 900)],
)
def test_hostile_text_is_redacted_in_slices(text: str, candidates: int) -> None:
    assert sum(1 for _ in Removal(DEFAULT).text_in_slices(text)) >= candidates
    assert sum(1 for _ in Removal(DEFAULT).json_in_slices({"a": [text], "b": [1] * 100})) >= candidates + 100


def test_a_line_is_looked_at_once_however_many_secrets_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[int, int]] = []
    find_line = scanner.find_line

    def count_line(data: bytes, position: int) -> tuple[int, int]:
        lines.append(find_line(data, position))
        return lines[-1]

    monkeypatch.setattr(scanner, "find_line", count_line)
    data, removals = Scanner(RedactionSettings()).redact(b"https://a:pw9xq7@h " * 1000)
    assert (data, removals) == (b"https://a:[REDACTED:url-password]@h " * 1000, 1000)
    assert len(lines) < 10


@pytest.mark.parametrize(
    ("line", "redacted"),
    [
        ("<password>Kx9f86d081884c7d659a</password>", "<password>[REDACTED:secret]</password>"),
        ('<add apiKey value="Kx9f86d081884c7d659a"/>', '<add apiKey value="[REDACTED:secret]"/>'),
        ("SECRET_KEY_BASE=3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c", "SECRET_KEY_BASE=[REDACTED:secret]"),
        ("DATABASE_PASS=Kx9f86d081884c7d", "DATABASE_PASS=[REDACTED:secret]"),
        ("Cookie: a=1; session=Kx9f86d081884c7d659aZpQ7", "Cookie: a=1; session=[REDACTED:cookie]"),
        ("/bot123456789:AAEhBOweik6ad9rQXMENQjcrGbqCr4K-bcX/me", "/bot[REDACTED:telegram-token]/me"),
        ("curl -s -u ada:Kx9f86d081884c7d https://x", "curl -s -u ada:[REDACTED:secret] https://x"),
    ],
)
def test_a_secret_is_known_by_what_stands_around_it(line: str, redacted: str) -> None:
    assert redact(line) == redacted


@pytest.mark.parametrize(
    "line",
    [
        "<password>{password}</password>",
        '<xs:element name="token" type="xs:string"/>',
        "<token>identifier</token>",
        "first_pass = True",
        "two_pass=compile_again",
        "max_pass: 100000",
        "curl -u user:password https://example.com",
        "Cookie: theme=dark; lang=en",
        "Set-Cookie: session=abc; Path=/",
    ],
)
def test_what_looks_alike_and_holds_no_secret_stays(line: str) -> None:
    assert redact(line) == line


USER_PASSWORD = """
curl -u ada:PASSWORD https://x.example
curl https://x.example -u ada:PASSWORD
curl --user=ada:PASSWORD https://x.example
curl -uada:PASSWORD x
curl -sSLu ada:PASSWORD x
curl -sSLu 'ada@x.example:PASSWORD' x
curl -u :PASSWORD x
curl -x proxy:1 --proxy-user ada:PASSWORD -u ada:PASSWORD x
curl -U "ada:PASSWORD" x
wget --user ada:PASSWORD x
  -u ada:PASSWORD \\
  --proxy-user="ada:PASSWORD" \\
["curl", "-u", "ada:PASSWORD", "x"]
['--user', 'ada:PASSWORD']
{"command": "curl -X POST \\\n-u \"ada:PASSWORD\""}
"""
"""Commands with a user and a password; the word PASSWORD stands for one."""
ELEMENTS = """
<apiKey>PASSWORD</apiKey>
<ns:ApiKey> PASSWORD </ns:ApiKey>
<api-key type="x">PASSWORD</api-key>
<accessToken>PASSWORD</accessToken>
<clientSecret><![CDATA[PASSWORD]]></clientSecret>
<db.Password>PASSWORD</db.Password>
<string name="api_key">PASSWORD</string>
<setting name="ApiKey" serializeAs="String"><value>PASSWORD</value></setting>
<add key="ApiKey" value="PASSWORD" />
<add key='Mail.Password' lock="1" value='PASSWORD'/>
<add value="PASSWORD" key="ApiKey"/>
<a/><add key=\\"ApiKey\\" value=\\"PASSWORD\\"/>
{"apiKey": ["PASSWORD"]}
{"apiKey": "PASSWORD", "clientSecret": [["PASSWORD"], "PASSWORD"]}
private_key = 'PASSWORD'
"""


@pytest.mark.parametrize("line", [*USER_PASSWORD.strip("\n").split("\n"), *ELEMENTS.strip().split("\n")])
@pytest.mark.parametrize("secret", ["hunter2secret", "tr0ub4dor!3x", "Kx9f86d081884c7d659a"])
def test_a_chosen_password_is_known_by_what_stands_around_it(line: str, secret: str) -> None:
    assert redact(line.replace("PASSWORD", secret)) == line.replace("PASSWORD", "[REDACTED:secret]")


def test_signs_of_a_shell_belong_to_a_password_in_quotes_alone() -> None:
    assert redact("curl -u 'ada:tr0ub&4dor;3(x' y") == "curl -u 'ada:[REDACTED:secret]' y"
    assert redact("(curl -u ada:tr0ub4dor x)&& y") == "(curl -u ada:[REDACTED:secret] x)&& y"
    assert redact("curl x -u ada:tr0ub4dor;y") == "curl x -u ada:[REDACTED:secret];y"


@pytest.mark.parametrize("line", """
curl -u $USER:$TOKEN https://x.example
curl -u "$USER:$TOKEN" https://x.example
curl -u ${USER}:${TOKEN2X} --proxy-user %USER1%:%TOKEN2% x
curl -u "$(cat user1x):$(cat token1x)" x
curl -u user:password x; curl --user 'name:password123' x
curl -u <user>:<token1x2y> x
curl -H "User-Agent: curl1x2y" -o out:put1x x
docker run -u 1000:1000 --user=node:node image1x
docker run --user "$(id -u):$(id -g)" -v /a1b2c3:/d4e5f6 x
git push -u origin main:feature1x2y
python -u -m http.server:abc
redis-cli -u redis://localhost1x:6379/0a1b2c
journalctl -u ssh1x --user-unit a1:b2c3d4e5f
<password>$PASSWORD</password>
<apiKey>${env.API_KEY1X}</apiKey>
<apiKey>@API_KEY2@</apiKey><apiKey>your-api-key-1x2y</apiKey>
<apiKey>see the documentation2x</apiKey>
<token>identifier</token><tokenType>oauth2bearer</tokenType>
<xs:element name="apiKey" type="xs:string2x3y"/>
<add key="ApiKeyName" value="header1x2y" />
<add key="ApiKey" value="" /><add key="ApiKey" value="%API_KEY%" />
<input name="password" type="password" value="{{ password1x }}"/>
<secretName>tls</secretName>
{"apiKey": ["string"], "secret": ["utf8", "sha256"]}
api_key = None
apiKey = process.env.API_KEY2X
secret: "path/to/value1"
""".strip().split("\n"))  # fmt: skip
def test_what_names_no_secret_stays(line: str) -> None:
    assert redact(line) == line


def test_keys_of_the_documentation_of_amazon_stay() -> None:
    """As under gitleaks, whose rule lets through what ends in EXAMPLE: they open nothing, and documents are full of them.

    They are as long as a real key: what only begins with a real one is none of them.
    """
    documented = "AKIA" + "IOSFODNN7EXAMPLE"
    real = "AKIA" + "IOSFODNN7ABCDEFG"
    assert redact(f"aws_access_key_id = {documented}") == f"aws_access_key_id = {documented}"
    assert (
        redact(f'{{"AccessKeyId": "ASIA{documented[4:]}"}}') == f'{{"AccessKeyId": "ASIA{documented[4:]}"}}'
    )
    for key in (real, f"{real}EXAMPLE", f"{documented}{real[4:]}", f"{real[:-7]}EXAMPL7"):
        assert redact(f"id {key}.") == "id [REDACTED:aws-access-key]."
    assert redact(documented, ANSWER) == "[REDACTED:KEY]"
