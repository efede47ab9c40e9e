"""`run_program` and `query_output`: programs in language runtimes and what is stored of them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import run_paddock
from tests.support.mcp_server import ERAS, Place


def calls(place: Place, *asked: tuple[str, dict[str, Any]]) -> list[Any]:
    async def main() -> list[Any]:
        async with place.client() as client:
            return [await client.call_tool(name, arguments) for name, arguments in asked]

    return asyncio.run(main())


def test_output_comes_back_without_being_asked_for(place: Place) -> None:
    secret = "print('api_key=' + 'abcdef0123456789')"
    shown, hidden, sizes, much = calls(
        place,
        ("run_program", {"runtime": "python", "code": "print(6*7)"}),
        ("run_program", {"runtime": "python", "code": secret}),
        ("run_program", {"runtime": "python", "code": "print(6*7)", "outputMode": "minimal"}),
        ("run_program", {"runtime": "python", "code": "for n in range(1000): print(n)"}),
    )
    assert shown.content[0].text.partition("--- ")[2] == "stdout\n42"
    assert shown.structured_content["stdoutSummary"] == "42"
    assert hidden.structured_content["stdoutSummary"] == "api_key=[REDACTED:secret]"
    assert sizes.structured_content["stdoutSummary"] == ""
    assert sizes.content[0].text.splitlines()[-1] == "2 lines, 3 bytes"
    lines = much.structured_content["stdoutSummary"].split("\n")
    assert [*lines[:1], *lines[49:55], *lines[-1:]] == [
        *("0", "49", "", "... (900 lines omitted) ...", "", "950", "951", "999")
    ]


def test_of_progress_the_last_frame_is_told_and_all_of_it_is_kept(place: Place) -> None:
    code = '$| = 1; print "\\r$_/300" for 1 .. 300; print "\\ndone\\n"'

    async def main() -> tuple[list[str], Any, Any]:
        heard: list[str] = []

        async def listen(_progress: float, _total: float | None, message: str | None) -> None:
            heard.append(message or "")

        async with place.client() as client:
            asked = {"runtime": "perl", "code": code}
            done = await client.call_tool("run_program", asked, progress_callback=listen)
            lines = {"stream": "stdout", "startLine": 1, "endLine": 2}
            asked = {"artifactHandle": done.structured_content["artifactHandle"], "lineRange": lines}
            return heard, done, await client.call_tool("query_output", asked)

    heard, done, page = asyncio.run(main())
    assert done.structured_content["stdoutSummary"] == "300/300\ndone"
    assert page.structured_content["excerpts"][0]["content"] == "300/300\ndone"
    assert "\n".join(heard) == "300/300\ndone"
    frames = "".join(f"\r{number}/300" for number in range(1, 301))
    assert done.structured_content["truncation"]["totalStdoutBytes"] == len(f"{frames}\ndone\n")
    shown = run_paddock(
        place.workspace,
        "output",
        "show",
        done.structured_content["artifactHandle"],
        environment=place.environment,
    )
    assert shown.stdout == f"{frames}\ndone\n"


@pytest.mark.parametrize("mode", ERAS)
def test_a_program_tells_its_lines_while_it_runs(place: Place, mode: str) -> None:
    code = '$| = 1; print STDERR "one\\n"; select(undef, undef, undef, 0.02) until -e "go"; print "two\\n"'

    async def main() -> tuple[str, str]:
        heard: list[str] = []

        async def listen(_progress: float, _total: float | None, message: str | None) -> None:
            heard.append(message or "")
            (place.workspace / "go").touch()

        async with place.client(mode=mode) as client:
            arguments = {"runtime": "perl", "code": code, "outputMode": "summary"}
            result = await client.call_tool("run_program", arguments, progress_callback=listen)
            return heard[0], result.content[0].text

    first, text = asyncio.run(main())
    assert first == "[error] one"
    assert text.partition("--- ")[2] == "stdout\ntwo\n--- stderr\none"


def test_what_is_stored_is_searched_and_paged(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            code = 'print "line $_\\n" for 1 .. 30'
            done = await client.call_tool("run_program", {"runtime": "perl", "code": code})
            handle = done.structured_content["artifactHandle"]
            asked = {
                "artifactHandle": handle,
                "lineRange": {"stream": "stdout", "startLine": 2, "endLine": 3},
            }
            page = await client.call_tool("query_output", asked)
            assert page.content[0].text == (
                "ok · lineRange · 0 matches · 30 lines\n--- stdout 2-3\nline 2\nline 3"
            )
            asked = {"artifactHandle": handle, "queryTerms": ["line 30"], "contextLines": 0}
            found = await client.call_tool("query_output", asked)
            assert found.structured_content["excerpts"] == [
                {"lineStart": 30, "lineEnd": 30, "content": "line 30", "source": "stdout"}
            ]
            start = await client.call_tool("query_output", {"artifact_handle": handle, "max_excerpts": 2})
            assert [
                (each["lineStart"], each["content"]) for each in start.structured_content["excerpts"]
            ] == [(1, "line 1\nline 2")]

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_excerpts_stand_alone(place: Place, mode: str) -> None:
    asked = {
        "runtime": "perl",
        "code": 'print "one\\nTARGET\\nthree\\n"',
        "outputMode": "intent",
        "contextLines": 0,
    }

    async def main() -> list[Any]:
        async with place.client(mode=mode) as client:
            terms = (["target"], ["absent"])
            return [await client.call_tool("run_program", {**asked, "queryTerms": each}) for each in terms]

    found, nothing = asyncio.run(main())
    assert found.content[0].text.partition("--- ")[2] == "stdout 2-2\nTARGET"
    assert found.structured_content["excerpts"] == [
        {"lineStart": 2, "lineEnd": 2, "content": "TARGET", "source": "stdout"}
    ]
    assert nothing.content[0].text.splitlines()[1:] == [
        f"output: {nothing.structured_content['artifactHandle']}"
    ]
    assert (found.is_error, nothing.is_error) == (False, False)


def test_common_names_of_languages_are_known(place: Place) -> None:
    results = calls(
        place,
        *(("run_program", {"language": name, "code": "echo $((6 * 7))"}) for name in ("bash", "SH", "Shell")),
    )
    assert [each.structured_content["stdoutSummary"] for each in results] == ["42"] * 3


def test_mistakes_are_told(place: Place) -> None:
    results = calls(
        place,
        ("run_program", {"runtime": "cobol", "code": "x"}),
        ("run_program", {"runtime": "perl"}),
        ("run_program", {"runtime": "perl", "code": "exit 3"}),
        ("query_output", {"artifactHandle": "../x", "queryTerms": ["a"]}),
        ("query_output", {"artifactHandle": "runtime-ws-1-0123456789abcdef"}),
        ("run_program", {"runtime": "javascrip", "coed": "1"}),
        ("run_program", {"runtime": 5, "code": "1"}),
    )
    assert [each.is_error for each in results] == [True] * 7
    texts = [each.content[0].text for each in results]
    assert texts[0] == (
        "invalid\nrun_program: there is no runtime cobol; there are node, typescript, python, shell, powershell, go, java, "
        "kotlin, rust, c, cpp, csharp, ruby, php, perl, r, elixir"
    )
    assert texts[5].splitlines() == [
        "invalid",
        "run_program: there is no runtime javascrip; did you mean node?",
        "run_program: `coed` is unknown; did you mean `code`?",
    ]
    assert texts[6].startswith("invalid\nrun_program: `language` must be one of ")
    assert texts[1] == (
        "invalid\nrun_program: there is nothing to run: give `code`, or `args` for the executable itself"
    )
    assert texts[2].startswith("failed · exit 3 · ")
    assert texts[3] == "invalid\nInvalid artifact handle: path traversal detected"
    assert texts[4] == (
        "invalid\nArtifact not found: runtime-ws-1-0123456789abcdef; it does not exist or has expired "
        "(artifacts.ttl_hours)"
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("run_program", {"maxResponseLines": 2}, "`max_response_lines` must be at least 10"),
        ("run_program", {"contextLines": 99}, "`context_lines` must be at most 20"),
        ("run_program", {"queryTerms": ["a"] * 11}, "`query_terms` has 11 entries; at most 10 are allowed"),
        ("run_program", {"queryTerms": ["a", ""]}, "`query_terms[1]` is empty"),
        ("run_program", {"args": ["a"] * 101}, "`args` has 101 entries; at most 100 are allowed"),
        ("run_program", {"relativeCwd": ""}, "`relative_cwd` is empty"),
        ("run_program", {"timeoutMs": 5}, "a program's timeout is 100 to 600000 ms, not 5"),
        ("query_output", {"maxExcerpts": 500, "queryTerms": ["x"]}, "`max_excerpts` must be at most 100"),
        (
            "query_output",
            {"lineRange": {"stream": "both", "startLine": "a"}},
            "`line_range.stream` must be 'stdout' or 'stderr'\n"
            "query_output: `line_range.start_line` must be a whole number\n"
            "query_output: `line_range.end_line` is missing",
        ),
        (
            "query_output",
            {"lineRange": {"stream": "stdout", "startLine": 5, "endLine": 1}},
            "`line_range`: end_line is before start_line",
        ),
    ],
)
def test_a_mistake_is_told_by_the_name_that_the_caller_used(
    place: Place, tool: str, arguments: dict[str, Any], told: str
) -> None:
    needed = {"run_program": {"runtime": "perl", "code": "1"}, "query_output": {"artifactHandle": "x"}}
    (result,) = calls(place, (tool, {**needed[tool], **arguments}))
    assert result.content[0].text == f"invalid\n{tool}: {told}"


def test_an_end_without_an_exit_code_names_none(place: Place) -> None:
    killed, denied = calls(
        place,
        ("run_program", {"runtime": "perl", "code": "kill KILL => $$; sleep 60"}),
        ("run_program", {"runtime": "perl", "code": "1", "relativeCwd": "../x"}),
    )
    assert killed.content[0].text.startswith("failed · SIGKILL · ")
    assert denied.content[0].text.startswith("denied · 0 ms · run ")


def test_answers_begin_as_the_page_says(place: Place) -> None:
    """As `docs/mcp-tools.md` does above its table."""
    endless = {"runtime": "perl", "code": "1 while 1", "timeoutMs": 100}
    results = calls(
        place,
        ("execute_code", {"code": "return 1"}),
        ("run_program", {"runtime": "perl", "code": "1"}),
        ("run_program", {"runtime": "perl", "code": "exit 3"}),
        ("run_program", endless),
        ("run_program", {"runtime": "cobol", "code": "1"}),
        ("call_tool", {"server": "odd", "tool": "echo", "args": {"text": "as it is"}}),
        ("compute", {"source": "emit('as it is')"}),
        ("compute", {"source": "emit("}),
    )
    begun = [(result.content[0].text.split()[0], result.is_error) for result in results]
    assert begun == [
        ("ok", False),
        ("ok", False),
        ("failed", True),
        ("timeout", True),
        ("invalid", True),
        ("as", False),
        ("as", False),
        ("failed:", True),
    ]


def test_what_is_wrong_is_named_as_the_agent_knows_it(place: Place) -> None:
    asked = {"runtime": "perl", "code": "1"}
    wrong: dict[str, Any] = {
        "maxResponseLines": 9,
        "contextLines": 21,
        "queryTerms": [""],
        "relativeCwd": "",
    }
    found = calls(place, *(("run_program", {**asked, name: value}) for name, value in wrong.items()))
    assert [each.content[0].text.split("\n")[1] for each in found] == [
        "run_program: `max_response_lines` must be at least 10",
        "run_program: `context_lines` must be at most 20",
        "run_program: `query_terms[0]` is empty",
        "run_program: `relative_cwd` is empty",
    ]


def test_an_agent_asks_for_what_the_settings_grant(place: Place) -> None:
    place.settings('[runtimes]\naccess = "workspace-write"\nnetwork = "full"\n')
    code = 'print mkdir(".vscode") + mkdir("made"), socket(my $s, 2, 1, 0)'
    asked: dict[str, Any] = {"runtime": "perl", "code": code, "outputMode": "summary"}
    narrow, wide = calls(
        place,
        ("run_program", {**asked, "code": 'print mkdir("made") + 0, socket(my $s, 2, 1, 0)'}),
        ("run_program", {**asked, "access": "workspace-write", "network": "full"}),
    )
    assert narrow.content[0].text.partition("--- ")[2] == "stdout\n0"
    _, put_back, _, *output = wide.content[0].text.split("\n")
    assert put_back == "restored, because your own tools run or trust it: .vscode"
    assert output == ["--- stdout", "21"]
    assert wide.structured_content["violations"] == [".vscode"]
    assert [(place.workspace / name).exists() for name in ("made", ".vscode")] == [True, False]


@pytest.mark.parametrize("tool", ["run_program", "execute_code"])
def test_programs_run_where_no_workspace_is_granted(place: Place, tool: str) -> None:
    place.settings('[runtimes]\naccess = "none"\n')
    code = 'print -e ".mcp.json" ? "there" : "gone"'
    asked = {
        "run_program": {"runtime": "perl", "code": code, "outputMode": "summary"},
        "execute_code": {"code": f"return (await paddock.exec('perl', {code!r})).stdout"},
    }
    refused = {"runtime": "perl", "code": code, "access": "read-only"}
    found, denied = calls(place, (tool, asked[tool]), ("run_program", refused))
    assert found.content[0].text.rpartition("\n")[2].strip('"') == "gone"
    assert denied.structured_content["policyDecision"]["deniedReasons"] == [
        'access read-only to the workspace is not granted (granted: none); set `access = "read-only"` under '
        "[runtimes] in the paddock.toml of the user or the system"
    ]


def test_the_data_have_what_the_text_has(place: Place) -> None:
    done, failed, denied, unfit, long = calls(
        place,
        ("run_program", {"language": "shell", "code": "echo hi"}),
        ("run_program", {"language": "shell", "code": "exit 3"}),
        ("run_program", {"language": "shell", "code": ":", "network": "full"}),
        ("run_program", {"language": "shell", "code": ":", "executable": "zsh9"}),
        ("run_program", {"language": "shell", "code": ":", "timeout_ms": 600_000}),
    )
    for each in (done, failed, denied, unfit, long):
        head = each.content[0].text.partition("\n")[0]
        assert head.endswith(f" · run {each.structured_content['run']}")
    assert failed.content[0].text.splitlines()[1] == "The program exited with code 3"
    assert failed.structured_content["error"]["message"] == "The program exited with code 3"
    for each in (denied, unfit, long):
        [reason] = each.structured_content["policyDecision"]["deniedReasons"]
        error = each.structured_content["error"]
        assert (error["name"], error["message"]) == ("PolicyError", reason)
        told = [f"denied: {reason}", *([f"hint: {error['hint']}"] if error["hint"] else [])]
        assert each.content[0].text.splitlines()[1:] == told
    assert unfit.structured_content["error"]["hint"] == (
        "compatible are bash, sh, cmd; if you name none, Paddock uses the first one that is installed"
    )
    assert long.structured_content["error"]["hint"] == (
        "ask for at most 30000 ms, or raise `runtimes.timeout_ms` in paddock.toml"
    )


def test_stored_output_is_found_by_the_address_that_an_answer_links_to(place: Place) -> None:
    code = "echo out; echo err >&2"
    [done] = calls(place, ("run_program", {"language": "shell", "code": code}))
    links = [part.uri for part in done.content if part.type == "resource_link"]
    handle = done.structured_content["artifactHandle"]
    assert links == [f"paddock://artifacts/{handle}/{name}" for name in ("stdout", "stderr")]
    asked = [
        {"artifact_handle": links[1]},
        {"artifact_handle": links[0], "query_terms": ["r"]},
        {"artifact_handle": links[0], "query_terms": ["r"], "stream": "both"},
        {"artifact_handle": f"paddock://artifacts/{handle}/../stdout"},
        {"artifact_handle": "paddock://artifacts/..%2Fx/stdout"},
    ]
    *found, wrong, escaped = calls(place, *(("query_output", each) for each in asked))
    contents = [[each["content"] for each in answer.structured_content["excerpts"]] for answer in found]
    assert contents == [["err"], ["out"], ["err"]]
    assert [answer.structured_content["matchStatus"] for answer in found[1:]] == [
        "noMatchFallback",
        "matched",
    ]
    for answer in (wrong, escaped):
        assert answer.content[0].text == "invalid\nInvalid artifact handle: path traversal detected"


def test_a_program_may_name_its_hosts_in_a_list(place: Place) -> None:
    place.settings(
        '[runtimes]\nnetwork = "hosts"\n[[network.rule]]\nhost = "api.example.com"\neffect = "allow"\n'
    )
    asked: dict[str, Any] = {"language": "perl", "code": "print 1"}
    lists = (["api.example.com"], '["api.example.com"]', ["other.example.com"], "api.example.com")
    *granted, denied, text = calls(
        place, *(("run_program", {**asked, "network": network}) for network in lists)
    )
    assert [each.structured_content["stdoutSummary"] for each in granted] == ["1", "1"]
    assert denied.structured_content["policyDecision"]["deniedReasons"] == [
        'no rule allows other.example.com; add a [[network.rule]] with host = "other.example.com" and effect = "allow" '
        "to the user's paddock.toml"
    ]
    assert '`network` names hosts in a list, such as ["api.example.com"]' in text.content[0].text


def test_an_agent_reads_what_its_program_changed(place: Place) -> None:
    place.settings('[runtimes]\naccess = "overlay"\n')
    (place.workspace / "list").write_text("one\n")
    asked = {"runtime": "shell", "code": "echo two >> list; mkdir -m 755 .vscode", "access": "overlay"}

    async def main() -> tuple[Any, str, str]:
        async with place.client() as client:
            found = await client.call_tool("run_program", asked)
            (uri,) = (block.uri for block in found.content[1:] if "changes" in str(block.uri))
            (contents,) = (await client.read_resource(uri)).contents
            return found, contents.text, contents.mime_type

    found, text, kind = asyncio.run(main())
    changes = found.structured_content["changes"]
    diff = "diff a/.vscode b/.vscode\nprotected: accepted only by name\nnew directory, mode 0755\n"
    diff += "diff a/list b/list\n--- a/list\n+++ b/list\n@@ -1 +1,2 @@\n one\n+two"
    facts = {
        "id": changes["id"],
        "method": "overlayfs",
        "added": 1,
        "modified": 1,
        "deleted": 0,
        "diff": diff,
    }
    assert changes == facts | {"protected": [".vscode"], "left_out": [], "incomplete": ""}
    assert (text, kind) == (diff, "text/x-diff")
    assert found.content[0].text.split("\n", 1)[1].replace(
        f"output: {found.structured_content['artifactHandle']}\n", ""
    ) == (
        f"changes: 1 added, 1 modified; the workspace is as before: paddock changes show {changes['id']}\n"
        f"changes: accepted only by name: .vscode\n--- changes\n{diff}\n"
        f'--- to accept the changes, run with execute_code: await paddock.changes.accept("{changes["id"]}")'
    )
    assert (place.workspace / "list").read_text() == "one\n"


def test_an_agent_reads_what_its_program_changed_in_a_directory(place: Place, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    place.settings(f'[[workspace.directory]]\npath = "{beside}"\naccess = "overlay"\n')

    async def main() -> Any:
        async with place.client() as client:
            return await client.call_tool(
                "run_program", {"runtime": "shell", "code": f"echo 1 > {beside}/new"}
            )

    found = asyncio.run(main())
    (changes,) = found.structured_content["directoryChanges"]
    diff = "diff a/new b/new\nnew file, mode 0644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+1"
    assert (changes["directory"], changes["added"], changes["diff"]) == (str(beside), 1, diff)
    assert found.content[0].text.split("\n", 1)[1].replace(
        f"output: {found.structured_content['artifactHandle']}\n", ""
    ) == (
        f"changes in {beside}: 1 added; {beside} is as before: paddock changes show {changes['id']} "
        f"--workspace {beside}\n--- changes in {beside}\n{diff}"
    )
    assert list(beside.iterdir()) == []
