"""The check of a program's types: a process of the compiler for each, confined, and a program that waits for it."""

import asyncio
import time
from statistics import median, quantiles
from unittest import mock

from tests.support import typed_programs
from tests.support.type_compiler import install_compiler

from benchmarks.measure import Line, Scale, at_most
from paddock.confinement.sandbox import tiers
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.programs import directories
from paddock.engines.types.check import CheckedText, TypeChecker

TITLE = "The check of a program's types"

NOTE = """The program has 40 lines and names five tools of `github`, `slack` and `time`, whose published definitions it is
checked against. No two checks have the same text: results are kept for equal ones."""

_LINES = 40
_PROGRAM = """\
const repository = { owner: "octo", repo: "cat" };
const now = await servers.time.get_current_time({ timezone: "UTC" });
const issues = await servers.github.list_issues({ ...repository, state: "open", per_page: 50 });
for (const issue of issues) {
  const { body } = await servers.github.get_issue({ ...repository, issue_number: issue.number });
  if (!body) await servers.github.add_issue_comment({ ...repository, issue_number: issue.number, body: "Please explain" });
}
await servers.slack.slack_post_message({ channel_id: "C1", text: `${now.datetime}: ${issues.length} open` });
"""


def _make_program(number: int) -> CheckedText:
    further = [
        f"const value{n}: number = issues.length + {n} * {number};"
        for n in range(_LINES - _PROGRAM.count("\n"))
    ]
    text = _PROGRAM + "\n".join(further) + "\n"
    return CheckedText(text, text, "typescript")


def measure(scale: Scale) -> list[Line]:
    root = install_compiler()
    with mock.patch.object(directories, "list_search_directories", return_value=(root,)):
        return asyncio.run(_measure(scale))


async def _measure(scale: Scale) -> list[Line]:
    definitions = typed_programs.read_published("github", "slack", "time")
    servers = typed_programs.declare(definitions, _PROGRAM)
    async with await tiers.choose("landlock", spares=1) as sandbox:

        async def open_sandbox() -> KernelSandbox:
            return sandbox

        checker = TypeChecker(open_sandbox)
        spent: list[float] = []
        for number in range(scale.of(100, 5)):
            started = time.perf_counter()
            result = await checker.check(_make_program(number), servers)
            spent.append((time.perf_counter() - started) * 1000)
            assert result == ((), (), ""), result
    return [
        Line("a process for each check, p50", median(spent), "ms", at_most(60)),
        Line("a process for each check, p95", quantiles(spent, n=20)[-1], "ms"),
    ]
