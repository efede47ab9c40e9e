"""Reading settings: files, variables, flags, and what is said about mistakes."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from paddock.model.errors import ConfigurationError
from paddock.policy.settings.keys import RENAMED_KEYS, leaves, list_defaults
from paddock.policy.settings.loader import _VARIABLES, load
from paddock.policy.settings.merge import Merged
from paddock.policy.settings.schema import Settings

Texts = Mapping[str, str]


def loaded(
    tmp_path: Path,
    *,
    system: str = "",
    user: str = "",
    workspace: str = "",
    env: Texts | None = None,
    flags: Texts | None = None,
) -> Merged:
    for name, text in (("system", system), ("user", user), ("w/paddock", workspace)):
        if text:
            path = tmp_path / f"{name}.toml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return load(
        tmp_path / "w",
        environment=env or {},
        flags=flags,
        system=tmp_path / "system.toml",
        user=tmp_path / "user.toml",
    )


def failure(tmp_path: Path, **texts: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, **texts)
    return str(caught.value).replace(str(tmp_path), "")


def test_without_any_file_the_defaults_hold(tmp_path: Path) -> None:
    merged = loaded(tmp_path)
    assert merged.settings == Settings()
    assert set(merged.sources.values()) == {"built in"}


def test_rules_on_hosts_of_all_files_are_joined_and_name_their_file(tmp_path: Path) -> None:
    rule = "[[network.rule]]\nhost = 'BÜCHER.example'\neffect = '{}'\n"
    merged = loaded(tmp_path, user=rule.format("allow"), workspace=rule.format("ask"))
    rules = [(rule.origin, rule.effect, rule.host) for rule in merged.settings.network.rule]
    assert rules == [
        ("user", "allow", "xn--bcher-kva.example"),
        ("workspace", "ask", "xn--bcher-kva.example"),
    ]


def test_a_workspace_cannot_raise_a_limit_of_the_network(tmp_path: Path) -> None:
    assert (
        loaded(tmp_path, workspace="[network]\nmax_connections = 2\n").settings.network.max_connections == 2
    )
    assert failure(tmp_path, workspace="[network]\nmax_connections = 1000\n") == (
        "/w/paddock.toml, line 2: network.max_connections = 1000 allows more than 64, which is what the built-in default "
        "allows and a workspace may only narrow; change /user.toml instead"
    )


def test_sources_say_file_and_line_variable_or_flag(tmp_path: Path) -> None:
    merged = loaded(
        tmp_path,
        user="# mine\n[limits.script]\ntimeout_ms = 1_000\n\n[[policy.rule]]\neffect = 'deny'\ntool = '*/x'\n",
        env={"PADDOCK_LIMITS_SCRIPT_SLEEP_MS": "50", "HOME": "/x", "PADDOCK_GRANTS_SERVERS": "git, time"},
        flags={"grants.jit": "true", "audit.sync": "always"},
    )
    settings = merged.settings
    assert (settings.limits.script.timeout_ms, settings.limits.script.sleep_ms) == (1000, 50)
    assert (settings.grants.jit, settings.grants.servers, settings.audit.sync) == (
        True,
        ("git", "time"),
        "always",
    )
    assert settings.policy.rule[0].origin == "user"
    told = {
        key: where.replace(str(tmp_path), "") for key, where in merged.sources.items() if where != "built in"
    }
    assert told == {
        "limits.script.timeout_ms": "/user.toml, line 3",
        "limits.script.sleep_ms": "PADDOCK_LIMITS_SCRIPT_SLEEP_MS",
        "grants.servers": "PADDOCK_GRANTS_SERVERS",
        "grants.jit": "--set grants.jit",
        "audit.sync": "--set audit.sync",
        "policy.rule": "/user.toml, line 5",
        "user rules": "/user.toml, line 5",
        "user rule 1": "/user.toml, line 5",
    }


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    merged = loaded(tmp_path, user="[audit]\ndirectory = 'ledger'\n[servers]\nconfig = '/x/.mcp.json'\n")
    assert merged.settings.audit.directory == tmp_path / "ledger"
    assert merged.settings.servers.config == Path("/x/.mcp.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[limits.scipt]\ntimeout_ms = 1\n", "/user.toml, line 1: unknown key `limits.scipt`; did you mean `limits.script`?"),
        ("[limits.script]\n\ntimout_ms = 1\n", "/user.toml, line 3: unknown key `limits.script.timout_ms`; did you mean `limits.script.timeout_ms`?"),
        ("zzz = 1\n", "/user.toml, line 1: unknown key `zzz`"),
        ("[limits.script]\ntimeout_ms = '1'\n", '/user.toml, line 2: limits.script.timeout_ms must be a whole number of milliseconds, or a text such as 500ms, 2.5s, 5m or 2h, not the text "1"'),
        ("[limits.script]\ntimeout_ms = 1.5\n", "/user.toml, line 2: limits.script.timeout_ms must be a whole number of milliseconds, or a text such as 500ms, 2.5s, 5m or 2h, not 1.5"),
        ("[limits.script]\ntimeout_ms = 0\n", "/user.toml, line 2: limits.script.timeout_ms must be a whole number above 0, not 0"),
        ("[guest]\nspare_workers = -1\n", "/user.toml, line 2: guest.spare_workers must be a whole number from 0, not -1"),
        ("[runtimes]\nmax_jobs = 1025\n", "/user.toml, line 2: runtimes.max_jobs must be a whole number up to 1024, not 1025"),
        ("grants.jit = 1\n", "/user.toml, line 1: grants.jit must be true or false, not 1"),
        ("[grants]\nservers = 'a'\n", '/user.toml, line 2: grants.servers must be a list, not the text "a"'),
        ("[grants]\nservers = [1]\n", "/user.toml, line 2: grants.servers must be a text, not 1"),
        ("[audit]\nsync = 'no'\n", '/user.toml, line 2: audit.sync must be "batch" or "always", not the text "no"'),
        ("audit = true\n", "/user.toml, line 1: audit must be a table, not true"),
        ("[[policy.rule]]\ntool = 'a/b'\n", "/user.toml, line 1: `policy.rule.effect` is missing"),
        ("[[policy.rule]]\neffect = 'deny'\n", "/user.toml, line 1: policy.rule: a rule needs at least one of `tool`, `server`, `method`, `runtime`, `executable`, `access`, `network`, `directory`, `jit`, `script`, `changes`, `workspace` and `kind`"),
        ("[[policy.rule]]\neffect = 'deny'\ntol = 'a/b'\n", "/user.toml, line 3: unknown key `policy.rule.tol`; did you mean `policy.rule.tool`?"),
        ("[[network.rule]]\norigin = 'system'\n", "/user.toml, line 1: unknown key `network.rule.origin`; remove it"),
        ("[[network.rule]]\nhost = 'a.example'\n", "/user.toml, line 1: `network.rule.effect` is missing"),
        ("[[network.rule]]\nhost = '*'\neffect = 'allow'\n", '/user.toml, line 2: network.rule.host: "*" has a "*"; only the first label of a name may be one, as in "*.example.com"'),
        ("[[network.rule]]\nhost = '0x7f.1'\neffect = 'allow'\n", '/user.toml, line 2: network.rule.host: "0x7f.1" is not a host; write an IPv4 address as four decimal numbers'),
        ("[[network.rule]]\nhost = 'a.example'\neffect = 'allow'\nports = [0]\n", "/user.toml, line 4: network.rule.ports must be a whole number from 1, not 0"),
        ("[[network.rule]]\nhost = 'a.example'\neffect = 'allow'\nports = [65536]\n", "/user.toml, line 4: network.rule.ports must be a whole number up to 65535, not 65536"),
        ("[[network.rule]]\nhost = 'a.example'\neffect = 'allow'\naddresses = ['10.0.0.1/8']\n", '/user.toml, line 4: network.rule.addresses: "10.0.0.1/8" is not a network such as 10.0.0.0/8'),
        ("[[network.rule]]\nhost = 'a.example'\neffect = 'deny'\naddresses = ['10.0.0.0/8']\n", '/user.toml, line 1: network.rule: `addresses` has no meaning with effect = "deny"; remove it'),
        ("[[network.rule]]\nhost = 'a.example'\neffect = 'allow'\nport = [1]\n", "/user.toml, line 4: unknown key `network.rule.port`; did you mean `network.rule.ports`?"),
        ("[[policy.rule]]\norigin = 'system'\n", "/user.toml, line 1: unknown key `policy.rule.origin`; remove it"),
        ("a = \n", "/user.toml: this is not TOML: Invalid value (at line 1, column 5)"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file(tmp_path: Path, text: str, message: str) -> None:
    assert failure(tmp_path, user=text) == message


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    assert failure(tmp_path, user="[grants]\njit = 1\nqqqqqqqqqq = 2\n").splitlines() == [
        "/user.toml, line 2: grants.jit must be true or false, not 1",
        "/user.toml, line 3: unknown key `grants.qqqqqqqqqq`",
    ]


@pytest.mark.parametrize("text", ["python, node", '["python", "node"]', ' ["python","node"] '])
def test_a_list_is_written_with_commas_or_as_in_a_file(tmp_path: Path, text: str) -> None:
    merged = loaded(tmp_path, flags={"runtimes.executables": text})
    assert merged.settings.runtimes.executables == ("python", "node")


def test_a_list_that_does_not_end(tmp_path: Path) -> None:
    assert failure(tmp_path, flags={"runtimes.executables": '["python"'}) == (
        '--set runtimes.executables: runtimes.executables must be a list, not the text "["python""'
    )


def test_mistakes_in_variables_and_flags(tmp_path: Path) -> None:
    assert failure(tmp_path, env={"PADDOCK_LIMITS_SCRIPT_TIMEOT": "1"}) == (
        "PADDOCK_LIMITS_SCRIPT_TIMEOT: unknown variable; did you mean `PADDOCK_LIMITS_SCRIPT_TIMEOUT_MS`?"
    )
    assert failure(tmp_path, env={"PADDOCK_GRANTS_JIT": "yes"}) == (
        'PADDOCK_GRANTS_JIT: grants.jit must be true or false, not the text "yes"'
    )
    assert failure(tmp_path, env={"PADDOCK_GUEST_MAX_WORKERS": ""}) == (
        'PADDOCK_GUEST_MAX_WORKERS: guest.max_workers must be a whole number, not the text ""'
    )
    assert failure(tmp_path, flags={"grants.jitt": "true"}) == (
        "--set grants.jitt: unknown key; did you mean `grants.jit`?"
    )
    assert failure(tmp_path, flags={"policy.rule": "x"}) == (
        "--set policy.rule: this can only be set in a settings file"
    )


def test_a_workspace_that_widens_names_key_values_and_file_to_change(tmp_path: Path) -> None:
    assert failure(
        tmp_path, user="[limits.script]\nsleep_ms = 10\n", workspace="limits.script.sleep_ms = 20\n"
    ) == (
        "/w/paddock.toml, line 1: limits.script.sleep_ms = 20 allows more than 10, which is what /user.toml, line 2 "
        "allows and a workspace may only narrow; change /user.toml, line 2 instead"
    )


def test_a_file_that_is_a_directory_or_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "user.toml").mkdir()
    assert failure(tmp_path) == "/user.toml: cannot read this settings file: Is a directory"
    (tmp_path / "user.toml").rmdir()
    (tmp_path / "user.toml").write_bytes(b"\xff")
    assert failure(tmp_path) == "/user.toml: cannot read this settings file: it is not UTF-8 text"


def test_a_link_to_nothing_is_no_missing_file(tmp_path: Path) -> None:
    (tmp_path / "user.toml").symlink_to("gone.toml")
    assert failure(tmp_path) == (
        "/user.toml: cannot read this settings file: it is a link to a missing file; restore or remove it"
    )


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    merged = loaded(tmp_path, user="\ufefflimits.script.sleep_ms = 10\n")
    assert merged.settings.limits.script.sleep_ms == 10


def test_every_setting_but_the_tables_has_a_variable_of_its_own() -> None:
    assert sorted(set(_VARIABLES.values()) - set(RENAMED_KEYS)) == sorted(
        set(leaves(Settings()))
        - {
            "policy.rule",
            "flow.label",
            "flow.rule",
            "network.rule",
            "redaction.patterns",
            "sdk.commands",
            "mcp.repos",
            "runtimes.recipes",
            "serve.token",
        }
        - {"sandbox.protected", "sandbox.unprotected", "workspace.hide"}
    )


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ('[limits.execute]\ntimeout_ms = "2.5s"', "limits.execute.timeout_ms", 2500),
        ('[limits.script]\nmemory_bytes = "64 MiB"', "limits.script.memory_bytes", 2**26),
        ('[runtimes]\ncache_bytes = "1GB"', "runtimes.cache_bytes", 10**9),
    ],
)
def test_durations_and_sizes_may_have_a_unit(tmp_path, text, key, value):
    amount = text.split('"')[1]
    variable = "PADDOCK_" + key.replace(".", "_").upper()
    for given in ({"user": text}, {"env": {variable: amount}}, {"flags": {key: amount}}):
        (tmp_path / "user.toml").unlink(missing_ok=True)
        found = loaded(tmp_path, **given).settings
        for name in key.split("."):
            found = getattr(found, name)
        assert found == value


@pytest.mark.parametrize(
    ("key", "wrong", "expected"),
    [
        (
            "limits.execute.timeout_ms",
            "2.5 seconds",
            "a whole number of milliseconds, or a text such as 500ms, 2.5s, 5m or 2h",
        ),
        (
            "limits.execute.code_bytes",
            "64M",
            "a whole number of bytes, or a text such as 500kB, 64MiB or 2GiB",
        ),
    ],
)
def test_a_unit_that_is_not_known(tmp_path, key, wrong, expected):
    assert failure(tmp_path, flags={key: wrong}) == (
        f'--set {key}: {key} must be {expected}, not the text "{wrong}"'
    )


def test_deprecated_keys_hold_and_warn_with_their_place_and_their_new_name(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning) as warned:
        merged = loaded(
            tmp_path,
            user='[limits.script]\nwall_ms = "2s"\n',
            env={"PADDOCK_RUNTIMES_MAX_DURATION_MS": "3s"},
            flags={"tools.max_output_bytes": "2kB"},
        )
    settings = merged.settings
    assert (
        settings.limits.script.timeout_ms,
        settings.runtimes.timeout_ms,
        settings.tools.output_bytes,
    ) == (2000, 3000, 2000)
    assert [str(each.message).replace(str(tmp_path), "") for each in warned] == [
        "/user.toml, line 2: `limits.script.wall_ms` is deprecated; write `limits.script.timeout_ms`",
        "PADDOCK_RUNTIMES_MAX_DURATION_MS: `runtimes.max_duration_ms` is deprecated; write `runtimes.timeout_ms`",
        "--set tools.max_output_bytes: `tools.max_output_bytes` is deprecated; write `tools.output_bytes`",
    ]
    assert {
        key: place.replace(str(tmp_path), "") for key, place in merged.sources.items() if place != "built in"
    } == {
        "limits.script.timeout_ms": "/user.toml, line 2",
        "runtimes.timeout_ms": "PADDOCK_RUNTIMES_MAX_DURATION_MS",
        "tools.output_bytes": "--set tools.max_output_bytes",
    }


def test_a_setting_under_both_of_its_keys_is_refused(tmp_path: Path) -> None:
    assert failure(tmp_path, user="[runtimes]\nmax_memory_bytes = 5\nmemory_bytes = 6\n") == (
        "/user.toml, line 2: `runtimes.max_memory_bytes` is the deprecated name of `runtimes.memory_bytes`, "
        "which is also set; remove `runtimes.max_memory_bytes`"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("true", "/user.toml, line 2: limits.script must be a table, not true"),
        ("[]", "/user.toml, line 2: limits.script must be a table, not a list"),
        ("'soon'", '/user.toml, line 2: limits.script must be a table, not the text "soon"'),
    ],
)
def test_a_value_in_place_of_the_table_of_a_deprecated_key(tmp_path: Path, value: str, message: str) -> None:
    assert failure(tmp_path, user=f"[limits]\nscript = {value}\n") == message


def test_every_replacement_of_a_deprecated_key_exists() -> None:
    assert {new for new in RENAMED_KEYS.values() if new not in list_defaults()} == set()
    assert {old for old in RENAMED_KEYS if old in list_defaults()} == set()


def test_a_workspace_widens_nothing_through_a_deprecated_key(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning):
        assert failure(
            tmp_path,
            user="[runtimes]\nmemory_bytes = 5\n",
            workspace="[runtimes]\nmax_memory_bytes = 6\n",
        ) == (
            "/w/paddock.toml, line 2: runtimes.memory_bytes = 6 allows more than 5, which is what /user.toml, line 2 allows "
            "and a workspace may only narrow; change /user.toml, line 2 instead"
        )


def test_every_rule_has_its_place_by_its_name(tmp_path: Path) -> None:
    user = '[[policy.rule]]\neffect = "deny"\nserver = "a"\n[[network.rule]]\nhost = "a.example"\neffect = "allow"\n'
    more = '\n  [[ policy.rule ]]\neffect = "deny"\nserver = "b"\n'
    workspace = '[flow]\nrule = [{ source = "private", sink = "external", effect = "deny" }]\n'
    sources = loaded(tmp_path, user=user + more, workspace=workspace).sources
    assert {name: place for name, place in sources.items() if " " in name} == {
        "user rules": f"{tmp_path}/user.toml, line 1",
        "user rule 1": f"{tmp_path}/user.toml, line 1",
        "user rule 2": f"{tmp_path}/user.toml, line 8",
        "user network rules": f"{tmp_path}/user.toml, line 4",
        "user network rule 1": f"{tmp_path}/user.toml, line 4",
        "workspace flow rules": f"{tmp_path}/w/paddock.toml, line 2",
        "workspace flow rule 1": f"{tmp_path}/w/paddock.toml, line 2",
    }


def test_a_text_that_looks_like_a_rule_moves_no_place(tmp_path: Path) -> None:
    user = '[[policy.rule]]\neffect = "deny"\nserver = "a"\nreason = """\n[[policy.rule]]\n"""\n'
    sources = loaded(tmp_path, user=user).sources
    assert sources["user rule 1"] == f"{tmp_path}/user.toml, line 1"
