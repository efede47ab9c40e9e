"""The SDK through the gate: what it grants, what it records, and that no secret leaves."""

import asyncio
import base64
import json

import pytest

from paddock.model.outcome import Status
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.policy.settings.rules import Rule

SECRET = "s3cr3t-v4lue"


def test_a_secret_is_used_and_never_shown(desk):
    desk.open().vault.set("global", "api", SECRET)
    seen = []
    outcome = desk.run(
        f"""
        const key = mentu.vault.get("api");
        console.log("key:", key, JSON.stringify({{key}}));
        if (key !== {SECRET!r}) throw new Error("not it");
        return [key.length, key, {{[key]: key + "!"}}];
        """,
        lines=lambda line: seen.append(line.text),
    )
    mark = "[REDACTED:vault]"
    assert outcome.value == [len(SECRET), mark, {mark: f"{mark}!"}]
    assert [line.text for line in outcome.console] == seen == [f'key: {mark} {{"key":"{mark}"}}']
    assert SECRET not in outcome.model_dump_json()
    assert SECRET not in "".join(record.model_dump_json() for record in desk.records())


def test_a_secret_in_an_error_and_in_the_output_of_a_program_is_hidden(desk):
    desk.open().vault.set("global", "api", SECRET)
    outcome = desk.run(
        """
        const key = paddock.vault.get("api");
        const run = await paddock.exec("python", "print('<' + input() + '>')", {stdin: key});
        throw new Error(`${run.stdout.length} ${key} ${run.stdout}`);
        """
    )
    assert outcome.error.message == "19 [REDACTED:vault] <[REDACTED:vault]>\n"
    stored = b"".join(
        file.read_bytes() for file in desk.place.rglob("*") if "artifacts" in str(file) and file.is_file()
    )
    assert SECRET.encode() not in stored


def test_a_secret_in_the_name_of_a_directory_is_in_no_manifest(desk):
    desk.open().vault.set("global", "api", SECRET)
    (desk.workspace / SECRET).mkdir()
    outcome = desk.run(
        """
        const run = await paddock.exec("shell", "basename $PWD", {cwd: paddock.vault.get("api")});
        return [run.stdout, run.artifact];
        """
    )
    assert outcome.value[0] == "[REDACTED:vault]\n"
    [manifest] = desk.place.rglob(f"{outcome.value[1]}/manifest.json")
    assert json.loads(manifest.read_text())["relativeCwd"] == "[REDACTED:vault]"
    assert not [
        path for path in desk.place.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


def test_a_secret_is_hidden_however_a_program_spells_it(desk):
    desk.open().vault.set("global", "api", SECRET)
    outcome = desk.run(
        """
        const key = paddock.vault.get("api");
        const code = "import base64,os,sys; key = sys.stdin.read().encode();" +
            "print(base64.b64encode(b'user:' + key).decode(), key.hex(), flush=True);" +
            "os.write(1, key[:5]); os.write(2, b'.'); os.write(1, key[5:])";
        const end = await paddock.exec("python", code, {stdin: key});
        paddock.cir.capture("the key is " + key, {tags: [key]});
        console.log(encodeURIComponent(key), end.stdout);
        const found = await paddock.output.query(end.artifact, {lines: [1, 9]});
        return [found.excerpts[0].content, JSON.stringify([key])];
        """
    )
    mark = "[REDACTED:vault]"
    assert outcome.value == [f"dXNlcjp{mark}U= {mark}\n{mark}", f'["{mark}"]']
    assert [line.text for line in outcome.console] == [f"{mark} dXNlcjp{mark}U= {mark}\n{mark}"]
    encoded = base64.b64encode(SECRET.encode())[:-4]
    for path in (path for path in desk.place.rglob("*") if path.is_file()):
        assert SECRET.encode() not in path.read_bytes(), path
        assert encoded not in path.read_bytes(), path


def test_scopes_and_missing_names(desk):
    desk.open()
    outcome = desk.run(
        """
        paddock.vault.set("a", "one-value", {scope: "team"});
        return [paddock.vault.list(), paddock.vault.list({scope: "team"}), typeof paddock.vault.get("a"),
          paddock.vault.get("a", {scope: "team"}).length];
        """
    )
    assert outcome.value == [[], ["a"], "undefined", 9]
    assert desk.vault.get("team", "a") == "one-value"


def test_programs_of_agents_read_no_secrets_unless_told(desk):
    desk.open().vault.set("global", "api", SECRET)
    outcome = desk.run("return paddock.vault.get('api')", profile="execute")
    message = (
        "paddock.vault.get is not granted to programs of the profile execute; "
        "name it in `execute` under [sdk] in paddock.toml"
    )
    assert (outcome.status, outcome.error.name, outcome.error.message) == (
        Status.FAILED,
        "PolicyError",
        message,
    )
    denied = [record for record in desk.records() if record.event == "decided"]
    assert [(record.fields["name"], record.fields["rule"]) for record in denied] == [
        ("vault.get", "sdk.execute")
    ]


def test_a_rule_can_deny_a_method_and_the_program_can_catch_it(desk):
    desk.open(rules=[Rule(effect="deny", method="vault.*", reason="no secrets in here")])
    outcome = desk.run(
        "try { paddock.vault.get('a') } catch (e) { return [e.name, e.message, e.status, e.retryable] }"
    )
    assert outcome.value == ["PolicyError", "no secrets in here", "denied", False]


def test_a_rule_about_a_method_holds_for_one_that_runs_other_work(desk):
    desk.open(
        rules=[
            Rule(effect="deny", method="exec", reason="no programs"),
            Rule(effect="deny", method="compute"),
        ]
    )
    outcome = desk.run(
        """
        const why = (error) => [error.name, error.message];
        return [await paddock.exec("python", "print(1)").catch(why), await paddock.compute("emit(1)").catch(why)];
        """
    )
    assert outcome.value == [
        ["PolicyError", "no programs"],
        ["PolicyError", "paddock.compute is denied by policy rule 2"],
    ]
    decided = [record.fields["rule"] for record in desk.records() if record.event == "decided"]
    assert decided == ["policy rule 1", "policy rule 2"]


def test_rules_about_programs_hold_for_exec_too(desk):
    desk.open(rules=[Rule(effect="deny", runtime="python")])
    outcome = desk.run("await paddock.exec('python', '1')")
    assert outcome.error.message == "running a python program is denied by policy rule 1"


def test_every_call_is_on_the_record_without_its_arguments(desk):
    desk.open()
    desk.run("paddock.cir.capture('a private note'); paddock.cir.stats()")
    told = [
        (record.event, record.fields.get("name"), record.fields.get("status")) for record in desk.records()
    ]
    assert told == [
        ("started", "program", None),
        ("started", "cir.capture", None),
        ("finished", "cir.capture", "ok"),
        ("started", "cir.stats", None),
        ("finished", "cir.stats", "ok"),
        ("finished", "program", "ok"),
    ]
    assert "private" not in json.dumps([record.model_dump() for record in desk.records()])
    assert len({record.parent for record in desk.records()}) == 2


def test_exec_gives_the_end_of_a_program_as_a_value(desk):
    desk.open()
    outcome = desk.run(
        """
        const failing = await paddock.exec("python", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)");
        const endless = await paddock.exec("shell", "while :; do :; done", {timeoutMs: 300});
        const {durationMs, artifact, ...rest} = failing;
        return [rest, typeof durationMs, typeof artifact, endless.status, endless.ok];
        """
    )
    rest = {
        "ok": False,
        "status": "failed",
        "exitCode": 7,
        "signal": None,
        "phase": "run",
        "stdout": "out\n",
        "stderr": "err\n",
        "truncated": False,
    }
    assert outcome.value == [rest, "number", "string", "timeout", False]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("exec()", 'paddock.exec(runtime, code, options), for example paddock.exec("python", "print(1)")'),
        ("exec('javascrip', '1')", "paddock.exec: there is no runtime javascrip; did you mean node?"),
        ("exec({runtime: 'node'})", "paddock.exec: runtime: Input should be a valid string"),
        ("exec('python', '1', [])", "paddock.exec: the options must be one object, not an array"),
        (
            "exec('python', '1', {session: 'new'})",
            "paddock.exec: a program cannot use sessions; its caller can, with `session` of run_program",
        ),
        (
            "exec('python', '1', {colour: 1})",
            "paddock.exec: unknown option 'colour'; there are `args`, `executable`, `stdin`, `cwd`, `access`, "
            "`network`, `files`, `outputs`, `env`, `packages`, `combined`, `keep`, `timeoutMs`, `compileTimeoutMs`, "
            "`cpuMs`, `memoryBytes` and `outputBytes`",
        ),
        (
            "exec('python', '1', {timeout_ms: 5000})",
            "paddock.exec: unknown option 'timeout_ms'; did you mean `timeoutMs`?",
        ),
        (
            "exec('python', '1', {memory: 1})",
            "paddock.exec: unknown option 'memory'; did you mean `memoryBytes`?",
        ),
        (
            "exec('python', '1', {timeoutMs: 1})",
            "paddock.exec: a program's timeout is 100 to 600000 ms, not 1",
        ),
        (
            "exec('python', '1', {files: {'a': 1}})",
            "paddock.exec: files['a']: text: Input should be a valid string",
        ),
        (
            "exec('python', '1', {files: 1})",
            "paddock.exec: files must be an object of texts by path, not a number",
        ),
        ("script.run('../x')", "../x: is a path; give the name of a saved script, without a folder"),
        ("script.run('nowhere')", "Script not found: nowhere"),
        ("vault.get(7)", "paddock.vault.get: name must be a string, not a number"),
        ("vault.get('a', {colour: 1})", "paddock.vault.get: unknown option 'colour'; there is `scope`"),
        ("vault.get()", "paddock.vault.get(name, options?): wrong number of arguments (0)"),
        (
            "vault.set('bad name', 'x')",
            "paddock.vault.set: 'bad name' cannot name a secret or a scope; use 1 to",
        ),
        ("vault.set('empty', '')", "paddock.vault.set: a secret has 1 to 65536 bytes, not 0"),
        ("webhook.register('notification')", "paddock.webhook.register(event, url, secret): wrong number"),
        ("tool('nowhere')", "Tool not found: nowhere"),
        ("cir.query({since: 'then'})", "since: 'then' is neither an age like `24h` or `7d` nor a date"),
        ("cir.query({limit: 0})", "limit: Input should be greater than or equal to 1"),
    ],
)
def test_misuse_is_told_to_the_program(desk, call, message):
    desk.open()
    outcome = desk.run(
        f"try {{ await paddock.{call} }} catch (e) {{ return [e.name, e.status, e.retryable, e.message] }}"
    )
    *kind, told = outcome.value
    assert kind == ["TypeError", "invalid", False]
    assert told.startswith(message)


def test_a_script_runs_another_one_with_its_variables_and_gets_its_value(desk):
    desk.open()
    folder = desk.workspace / ".paddock" / "scripts"
    folder.mkdir(parents=True)
    (folder / "inner.ts").write_text("const n: number = input.n; return [paddock.vars.A, n + 1]")
    (folder / "broken.js").write_text("throw new Error('inner trouble')")
    outcome = desk.run("return await paddock.script.run('inner', {vars: {A: 'b'}, input: {n: 1}})")
    assert outcome.value == ["b", 2]
    outcome = desk.run("await paddock.script.run('broken')")
    assert (outcome.status, outcome.error.message) == (Status.FAILED, "inner trouble")


def test_m28_a_call_that_takes_too_long_fails_after_its_limit_and_can_be_caught(desk):
    class Slow:
        async def call(self, request, work, open_hosts):
            await asyncio.Event().wait()

        def find_secret(self, name):
            return None

    desk.open(sdk={"call_timeout_ms": 100})
    desk.session.gate.replace_engines(sdk=Slow())
    outcome = desk.run(
        "try { mentu.notify.send('a', 'b') } catch (e) { return [e.name, e.message, e.status] }"
    )
    assert outcome.value == ["Timeout", "paddock.notify.send did not end within 100 ms", "timeout"]


def test_scripts_that_wait_for_scripts_need_no_place_of_theirs(desk):
    desk.open(workers=1)
    folder = desk.workspace / ".paddock" / "scripts"
    folder.mkdir(parents=True)
    (folder / "outer.js").write_text("return 1 + await paddock.script.run('inner')")
    (folder / "inner.js").write_text("await sleep(1); return 1")
    outcome = desk.run("return (await Promise.all([1, 2, 3].map(() => paddock.script.run('outer')))).join()")
    assert outcome.value == "2,2,2"


def test_a_script_gives_no_more_than_its_caller_has(desk):
    desk.open().vault.set("global", "api", SECRET)
    folder = desk.workspace / ".paddock" / "scripts"
    folder.mkdir(parents=True)
    (folder / "leak.js").write_text("return paddock.vault.get('api').split('').join(' ')")
    outcome = desk.run("return await paddock.script.run('leak')", profile="execute")
    message = (
        "paddock.vault.get is not granted to programs of the profile execute; "
        "name it in `execute` under [sdk] in paddock.toml"
    )
    assert (outcome.status, outcome.error.message) == (Status.FAILED, message)


def test_no_script_of_the_workspace_is_read_from_elsewhere(desk, tmp_path, monkeypatch):
    desk.open()
    monkeypatch.setenv("HOME", str(tmp_path))
    secret, own = tmp_path / "config.json", tmp_path / ".paddock" / "scripts"
    secret.write_text('{"auth": "c2VjcmV0"}')
    folder = desk.workspace / ".mentu" / "scripts"
    for each in (own, folder, desk.workspace / "kept"):
        each.mkdir(parents=True)
    (folder / "theirs.ts").symlink_to(secret)
    (own / "mine.ts").symlink_to(secret)
    (desk.workspace / "kept" / "inner.ts").write_text("return 1")
    (folder / "inner.ts").symlink_to("../../kept/inner.ts")
    outcome = desk.run("""
        const names = ["inner", "mine", "theirs"];
        const [inner, mine, theirs] = await Promise.allSettled(names.map((name) => paddock.script.run(name)));
        return [inner.value, mine.value, theirs.reason.message];
    """)
    assert outcome.value == [
        1,
        {"auth": "c2VjcmV0"},
        "theirs: cannot read this script: it leads out of the workspace; "
        "run it by its path, or save it in the home directory",
    ]


def test_a_program_does_not_learn_where_scripts_are_looked_for(desk):
    desk.open()
    outcome = desk.run("try { await paddock.script.run('nowhere') } catch (e) { return e.message }")
    assert outcome.value == "Script not found: nowhere"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("paddock.tool('nowhere')", "Tool not found: nowhere"),
        ("paddock.tool('odd')", ".paddock/tools/odd: tool.yaml: expected a mapping of fields"),
        (
            "paddock.sequence.run('nowhere')",
            "there is no sequence called nowhere\n  searched:\n"
            "    .paddock/sequences/*.toml\n    ~/.paddock/sequences/*.toml",
        ),
        (
            "paddock.temporal.fire('nowhere')",
            "there is no temporal called nowhere\n  searched:\n"
            "    .paddock/temporals/*.toml\n    ~/.paddock/temporals/*.toml",
        ),
        ("paddock.sequence.run('odd')", ".paddock/sequences/odd.toml: step: Field required"),
    ],
)
def test_a_program_is_told_where_in_the_workspace_and_no_more(desk, call, told):
    for name, text in (("tools/odd/tool.yaml", "1"), ("sequences/odd.toml", "")):
        path = desk.workspace / ".paddock" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert desk.open().run(f"try {{ await {call} }} catch (e) {{ return e.message }}").value == told


def test_a_directory_that_cannot_be_made_is_named_without_its_place(desk):
    (desk.place / "vault").write_text("a file")
    (desk.place / "vault").chmod(0o600)
    outcome = desk.open().run(
        "try { paddock.vault.set('a', 'value') } catch (e) { return [e.name, e.message, e.status] }"
    )
    reason = "vault: it is a file, not a directory; move vault away"
    assert outcome.value == ["VaultError", f"the vault cannot be used: {reason}", "error"]


def test_people_are_told_whole_paths(desk):
    desk.open()
    (desk.place / "signals.db").write_text("no such thing" * 100)
    work = SdkCall(method="cir.stats")
    outcome = desk.execute(ExecutionRequest(workspace=desk.workspace, work=work))
    assert (
        outcome.error.message
        == f"the signals in {desk.place}/signals.db cannot be used: file is not a database"
    )


@pytest.mark.parametrize(
    ("call", "file", "told"),
    [
        (
            "paddock.cir.query()",
            "signals.db",
            "the signals in signals.db cannot be used: file is not a database",
        ),
        (
            "paddock.vault.list()",
            "vault/secrets.fernet",
            "the key key is missing; restore it, or delete secrets.fernet to start afresh",
        ),
    ],
)
def test_a_program_is_told_no_directory_of_the_machine(desk, call, file, told):
    (desk.place / file).parent.mkdir(exist_ok=True)
    (desk.place / file).write_text("no such thing" * 100)
    outcome = desk.open().run(f"try {{ await {call} }} catch (e) {{ return e.message }}")
    assert outcome.value == told


@pytest.mark.parametrize(
    "option", ["own_packages", "ownPackages", "file", "output", "kernel", "background", "hosts", "kind"]
)
def test_options_that_are_only_internal_are_unknown(desk, option):
    desk.open()
    outcome = desk.run(f"await paddock.exec('python', '1', {{{option}: null}})")
    assert outcome.ok
    outcome = desk.run(f"await paddock.exec('python', '1', {{{option}: true}})")
    assert outcome.error.message.startswith(f"paddock.exec: unknown option '{option}'; ")


def test_limits_files_and_output_of_a_program(desk):
    desk.open()
    outcome = desk.run(
        """
        const run = async (code, options) => {
            const {status, stdout, artifact} = await paddock.exec("python", code, options);
            return [status, stdout, artifact !== null];
        };
        return [
            await run("bytearray(300_000_000)", {memoryBytes: 100_000_000}),
            await run("while True: pass", {cpuMs: 200}),
            await run("print('x' * 500)", {outputBytes: 100}).then(([status]) => status),
            await run("print(open('a.txt').read())", {files: {"a.txt": "hi"}, keep: false}),
            await run("print(open('a.txt').read())", {files: [{path: "a.txt", base64: "aGk="}], keep: true}),
            await run("import sys; print(1, flush=True); print(2, file=sys.stderr)", {combined: true, keep: false}),
        ];
        """
    )
    assert outcome.value == [
        ["memory_limit", "", True],
        ["timeout", "", True],
        "output_limit",
        ["ok", "hi\n", False],
        ["ok", "hi\n", True],
        ["ok", "1\n2\n", False],
    ]
