"""Resources and prompts of servers for programs and people: called, governed, recorded, described."""

import json

import pytest
from tests.support.command import run_paddock
from tests.support.servers import make_entry, write_servers

from paddock import Answer, BlockingPaddock

SECRET = "tok-0123456789abcdef"
PROGRAM = """
    const { lib } = servers;
    const [link] = await lib.link({ uri: "file:///notes.md" });
    return {
        tool: await lib.resources({}),
        list: (await lib.resources.list()).map((each) => each.uri),
        text: (await lib.resources.read("file:///notes.md"))[0].text,
        followed: (await lib.resources.read(link))[0].text,
        blob: (await lib.resources.read("file:///dot.png"))[0].blob,
        prompts: (await lib.prompts.list()).map((each) => each.name),
        prompt: await lib.prompts.get("greet", { who: "Ada" }),
        names: Object.keys(lib),
    };
"""
READ = "return (await servers.lib.resources.read('file:///notes.md'))[0].text"
LIST = "return (await servers.lib.resources.list()).length"


@pytest.fixture
def library(workspace):
    write_servers(workspace, {"lib": make_entry("library", env={"LIBRARY_TOKEN": SECRET}, maxConcurrent=1)})
    return workspace


def rule(workspace, text):
    (workspace / "paddock.toml").write_text(text)


def test_a_program_reads_resources_and_prompts_beside_a_tool_of_that_name(library):
    with BlockingPaddock(library) as paddock:
        outcome = paddock.execute(PROGRAM)
        hidden = paddock.execute(
            "return (await servers.lib.resources.read('file:///notes.md'))[0]._meta.seen"
        )
    message = {"role": "user", "content": {"type": "text", "text": "Hello Ada"}}
    assert outcome.check().value == {
        "tool": "the tool",
        "list": ["file:///notes.md", "file:///dot.png"],
        "text": "# Notes",
        "followed": "# Notes",
        "blob": "iVBORw0KGgo=",
        "prompts": ["greet"],
        "prompt": {"description": "A greeting", "messages": [message]},
        "names": ["resources", "work", "hold", "held", "link"],
    }
    assert [call.tool for call in outcome.calls] == [
        *("link", "resources", "resources/list", "resources/read", "resources/read", "resources/read"),
        *("prompts/list", "prompts/get", "servers.tools"),
    ]
    assert hidden.value == "[REDACTED:server]"


def test_a_link_of_another_scheme_is_read_by_its_server_or_by_none(library):
    """Nothing is fetched: whatever a link says, it goes to the server that sent it."""
    program = """
        const told = [];
        for (const uri of ["https://127.0.0.1:1/", "file:///etc/passwd", "data:,x", "javascript:1", "../a", ""]) {
            const [link] = await servers.lib.link({ uri });
            told.push(await servers.lib.resources.read(link).catch((error) => error.message));
        }
        return told;
    """
    with BlockingPaddock(library) as paddock:
        told = paddock.execute(program).check().value
    assert told == [
        *["unknown: resources/read"] * 4,
        'lib.resources.read was not called: "../a" is not a URI, such as file:///notes.md.',
        'lib.resources.read was not called: "" is not a URI, such as file:///notes.md.',
    ]


def test_grants_and_rules_hold_for_each_method(library):
    refused = "server lib is not granted (granted: none); name it in `servers` under [grants] in paddock.toml"
    with BlockingPaddock(library, overrides={"grants.servers": []}) as paddock:
        assert paddock.execute(READ).error.message == refused
    rule(library, '[[policy.rule]]\neffect = "deny"\ntool = "lib/resources/read"\nreason = "not these"\n')
    with BlockingPaddock(library) as paddock:
        denied, listed = paddock.execute(READ), paddock.execute(LIST)
    assert (denied.error.message, listed.value) == ("not these", 2)
    rule(library, '[[policy.rule]]\neffect = "allow"\ntool = "lib/resources/list"\n')
    with BlockingPaddock(library) as paddock:
        denied, listed = paddock.execute(READ), paddock.execute(LIST)
        tool = paddock.execute("return servers.lib.resources({})")
    assert (denied.calls[0].status, listed.value, tool.calls[0].status) == ("denied", 2, "denied")


def test_a_person_is_asked_about_the_uri(library):
    rule(library, '[[policy.rule]]\neffect = "ask"\ntool = "*/resources/read"\n')
    asked = []

    async def asker(question):
        asked.append((question.what, question.details))
        return Answer(verdict="once")

    with BlockingPaddock(library, asker=asker) as paddock:
        assert paddock.execute(READ).value == "# Notes"
        unsent = paddock.execute("return servers.lib.resources.read('notes.md')")
    assert asked == [("call the method lib/resources/read", '{"uri": "file:///notes.md"}')]
    assert unsent.error.message == (
        'lib.resources.read was not called: "notes.md" is not a URI, such as file:///notes.md.'
    )


@pytest.mark.parametrize("mode", ["read_only", "dry_run"])
def test_a_program_that_may_only_read_reads_resources(library, mode):
    with BlockingPaddock(library, overrides={"grants.calls": mode}) as paddock:
        assert paddock.execute(READ).value == "# Notes"


def test_people_read_resources_and_the_record_names_the_methods(library):
    def paddock(*arguments):
        done = run_paddock(library, "servers", *arguments)
        return done.returncode, done.stdout, done.stderr

    assert paddock("resources", "lib") == (
        0,
        "file:///notes.md\ttext/markdown\t\nfile:///dot.png\timage/png\t\n",
        "",
    )
    assert paddock("resources", "lib", "file:///notes.md") == (0, "# Notes\n", "")
    assert paddock("prompts", "lib") == (0, "greet\twho\tGreets\n", "")
    assert paddock("prompts", "lib", "greet", '{"who": "Ada"}') == (0, "user: Hello Ada\n", "")
    code, output, _ = paddock("resources", "lib", "file:///dot.png", "--json")
    assert (code, json.loads(output)["value"][0]["blob"]) == (0, "iVBORw0KGgo=")
    why = "lib.prompts.get was not called: the argument `who` of a prompt must be a string, not a number.\n"
    assert paddock("prompts", "lib", "greet", '{"who": 1}') == (1, "", why)
    facts = [each["fields"] for each in json.loads(run_paddock(library, "audit", "tail", "--json").stdout)]
    assert [(each["name"], each["method"]) for each in facts if each.get("status")] == [
        ("lib/resources/list", "resources/list"),
        ("lib/resources/read", "resources/read"),
        ("lib/prompts/list", "prompts/list"),
        ("lib/prompts/get", "prompts/get"),
        ("lib/resources/read", "resources/read"),
        ("lib/prompts/get", "prompts/get"),
    ]
    described = json.loads(paddock("describe", "lib", "--json")[1])
    assert [each["name"] for each in described] == [
        *("lib.resources", "lib.work", "lib.hold", "lib.held", "lib.link", "lib.prompts")
    ]
    assert described[0]["notes"][0].startswith(
        "servers.lib.resources also has list(): Promise<{ uri: string;"
    )
    assert described[-1]["declaration"].startswith("list(): Promise<{ name: string;")
