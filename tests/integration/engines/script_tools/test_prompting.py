"""Calls of prompts: tools that run by themselves, that ask first, and that judge their own inputs."""

from typing import Any

import pytest

from paddock.engines.script_tools.library import ScriptTool
from paddock.engines.script_tools.prompts.service import PromptService
from paddock.gate.script_tool_service import make_tool_run
from paddock.model.request import ExecutionRequest
from paddock.model.tool import ToolEnd

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
DOUBLE = "import json, sys; print(json.load(sys.stdin)['n'] * 2)"


class Caller:
    """Calls prompts of a workshop, at a time of its own."""

    def __init__(self, workshop: Any) -> None:
        self.workshop = workshop
        self.now = 0.0
        self.prompting = PromptService(workshop.session.scripts.library, self.run, lambda: self.now)

    async def run(self, tool: ScriptTool, inputs: dict[str, Any]) -> ToolEnd:
        work = make_tool_run(self.workshop.session.scripts.library, tool.id, inputs, prompt=tool.prompt)
        request = ExecutionRequest(workspace=self.workshop.workspace, work=work)
        end = (await self.workshop.session.gate.execute(request)).tool
        assert end is not None
        return end

    def call(
        self, **arguments: Any
    ) -> tuple[dict[str, Any], list[str], list[str], dict[str, tuple[str, ...]]]:
        reply = self.workshop.runner.run(self.prompting.call("ask", arguments))
        outputs = {tool: end.output for tool, end in reply.ends.items()}
        return outputs, [each.tool_id for each in reply.questions], reply.warnings, reply.errors


@pytest.fixture
def caller(workshop: Any) -> Caller:
    return Caller(workshop)


def test_p39_p40_a_call_that_comes_again_runs_once(caller: Caller):
    tool = caller.workshop.make(DOUBLE, schema=SCHEMA)
    ran, asked = ({tool: 8}, [], [], {}), ({}, [tool], [], {})
    assert [caller.call(n=4) for _ in range(3)] == [asked, ran, asked]
    assert caller.call(n=5) == asked
    caller.now = 299
    assert caller.call(n=4) == ran
    caller.now = 301
    assert caller.call(n=5) == asked


def test_who_agreed_to_a_script_has_not_agreed_to_another(caller: Caller):
    tool = caller.workshop.make(DOUBLE, schema=SCHEMA)
    asked = ({}, [tool], [], {})
    assert caller.call(n=4) == asked
    [script] = caller.workshop.workspace.rglob("script.py")
    script.write_text(DOUBLE.replace("* 2", "* 3"))
    assert caller.call(n=4) == asked
    assert caller.call(n=4) == ({tool: 12}, [], [], {})


def test_who_names_a_tool_is_not_asked(caller: Caller):
    tool = caller.workshop.make(DOUBLE, schema=SCHEMA)
    assert caller.call(n=4, tool=tool) == ({tool: 8}, [], [], {})


def test_a_tool_without_confirmation_runs_at_once(caller: Caller):
    tool = caller.workshop.make(DOUBLE, schema=SCHEMA, execution={"confirm": False})
    assert caller.call(n=4) == ({tool: 8}, [], [], {})
    assert caller.call(m=4) == ({}, [], [], {})


def test_p41_a_tool_that_judges_its_own_inputs(caller: Caller):
    script = """
        import json, sys
        n = json.load(sys.stdin)["n"]
        wanted = {"tool": "resource_manager", "params": {}}
        print(json.dumps({"valid": n > 0, "warnings": ["w"], "errors": ["e"][n:], "auto_execute": wanted}))
        sys.exit(1)
    """
    tool = caller.workshop.make(script, schema=SCHEMA, execution={"autoApproveOnValid": True})
    outputs, questions, warnings, errors = caller.call(n=1)
    assert (list(outputs), questions, errors) == ([tool], [], {})
    assert warnings == ["w", "auto_execute of 'resource_manager' was skipped: nothing here executes it"]
    assert caller.call(n=0) == ({}, [], ["w"], {tool: ("e",)})


def test_tools_of_other_prompts_are_not_seen(caller: Caller):
    make = caller.workshop.make
    mine = make(DOUBLE, schema=SCHEMA, folder="prompts/ask/tools", execution={"confirm": False})
    make(DOUBLE, schema=SCHEMA, folder="prompts/other/tools", execution={"confirm": False})
    for prompt in ("ask", "other"):
        (caller.workshop.workspace / "prompts" / prompt / "prompt.yaml").write_text("")
    assert caller.call(n=1) == ({mine: 2}, [], [], {})
    assert caller.call() == ({}, [], [], {})
