"""Programs over tools of real servers: no correct one is refused, most wrong ones are before they start."""

import asyncio
import os
from collections import Counter

import pytest
from tests.support.typed_programs import (
    CLASSES,
    choose,
    declare,
    list_mutations,
    read_programs,
    read_published,
)

from paddock.engines.servers.calls.hub import Hub
from paddock.engines.servers.config import StdioServer
from paddock.policy.decisions.environment import child_environment

MUTATIONS = int(os.environ.get("PADDOCK_TYPE_MUTATIONS", "28"))
"""200 in the long form."""


@pytest.fixture(scope="module")
def definitions(real_servers, tmp_path_factory):
    """The tools of the servers of tests/servers, as they list them now, and what other real servers publish."""
    folder = tmp_path_factory.mktemp("served")
    commands = {
        name: getattr(real_servers, name) for name in ("everything", "memory", "thinking", "git", "time")
    }
    commands["filesystem"] = (*real_servers.filesystem, str(folder))
    servers = {name: StdioServer(name, argv[0], tuple(argv[1:])) for name, argv in commands.items()}

    async def main():
        async with Hub(servers, environment=child_environment(os.environ)) as hub:
            listed = await asyncio.gather(*map(hub.list_tools, servers))
        return {
            server: {
                tool.name: {"inputSchema": tool.input_schema, "outputSchema": tool.output_schema}
                for tool in tools
            }
            for server, tools in zip(servers, listed, strict=True)
        }

    return asyncio.run(main()) | read_published("github", "gitlab", "slack", "airtable", "maps")


def test_no_correct_program_is_refused(check_all, definitions):
    programs = read_programs()
    results = check_all(*((each.compiler_text, declare(definitions, each.text)) for each in programs))
    assert len(programs) == 40
    found = {
        each.name: result for each, result in zip(programs, results, strict=True) if result != ((), (), "")
    }
    assert found == {}


def test_most_mistakes_are_found_before_the_first_call(check_all, definitions):
    mutations = choose(list_mutations(definitions), MUTATIONS)
    assert len(mutations) == MUTATIONS
    results = check_all(
        *((each.program.compiler_text, declare(definitions, each.program.text)) for each in mutations)
    )
    made = Counter(each.mistake for each in mutations)
    stopped = Counter(each.mistake for each, result in zip(mutations, results, strict=True) if result.wrong)
    report = {name: f"{stopped[name]} of {made[name]}" for name in CLASSES}
    assert set(made) == set(CLASSES)
    assert stopped.total() >= 0.7 * made.total(), report
    assert not [result for result in results if result.failure]
