"""`paddock ps` and `paddock stop`: what other processes of the user run, and the answers that their callers get."""

import json
import re
import subprocess
import threading

import anyio
import pytest
from tests.support.command import PADDOCK, run_paddock
from tests.support.http_api import ApiPlace
from tests.support.mcp_server import Place
from tests.support.processes import PATIENCE_S

FOREVER = "console.log('began'); for (;;) await sleep(1000)"
ID = r"[0-9A-HJKMNP-TV-Z]{26}"


def wait_for_run(place):
    """Return the first run that `paddock ps` lists, as soon as there is one."""
    while True:
        done = run_paddock(place.workspace, "ps", "--json", environment=place.environment)
        runs = [
            run for process in json.loads(done.stdout) for each in process["paddocks"] for run in each["runs"]
        ]
        if runs:
            return runs[0]


def stop(place, *ids):
    return run_paddock(place.workspace, "stop", *ids, environment=place.environment)


def test_a_command_elsewhere_is_listed_and_ended(tmp_path):
    place = ApiPlace(tmp_path)
    begun = subprocess.Popen(
        [PADDOCK, "exec", "python", "-c", "print('began', flush=True)\nwhile True: pass"],
        cwd=place.workspace,
        env={**place.environment, "PADDOCK_RUNTIMES_TIMEOUT_MS": "600000"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert begun.stdout is not None
    assert begun.stdout.readline() == "began\n"
    listed = run_paddock(place.workspace, "ps", environment=place.environment)
    pattern = rf"({ID})\tpython program\t[\w-]+\tcli\trunning\t\d+ s\t0\t\d+ MiB\t\d+\.\d s\n"
    found = re.fullmatch(pattern, listed.stdout)
    assert found, listed
    done = stop(place, found[1])
    assert (done.returncode, done.stderr) == (0, f"{found[1]}: ends now\n")
    _, errors = begun.communicate(timeout=PATIENCE_S)
    assert (begun.returncode, errors) == (137, "The program was cancelled\n")
    listed = run_paddock(place.workspace, "ps", environment=place.environment)
    assert (listed.stdout, listed.stderr) == ("", "nothing runs now\n")
    again = stop(place, found[1])
    told = f"{found[1]}: does not run; paddock ps lists what runs\n"
    assert (again.returncode, again.stderr) == (1, told)


def test_a_client_of_the_api_gets_the_outcome_of_a_run_that_was_ended(tmp_path):
    place = ApiPlace(tmp_path)
    with place.serve() as server, server.client() as client:
        begun = client.begin(language="javascript", code=FOREVER)
        run = wait_for_run(place)
        assert (run["id"], run["surface"]) == (begun, "http")
        assert stop(place, begun).returncode == 0
        ended = client.wait_for_end(begun)
        assert (ended["state"], ended["outcome"]["status"]) == ("finished", "cancelled")


@pytest.mark.parametrize("tool", ["execute_code", "run_program"])
def test_an_agent_is_answered_when_its_run_is_ended(tmp_path, tool):
    place = Place(tmp_path)
    arguments = {
        "execute_code": {"code": FOREVER},
        "run_program": {"language": "python", "code": "print('began', flush=True)\nwhile True: pass"},
    }[tool]

    async def main():
        async with place.client() as client:
            ended = []

            def end():
                ended.append(wait_for_run(place))
                stop(place, ended[0]["id"])

            thread = threading.Thread(target=end)
            thread.start()
            with anyio.fail_after(PATIENCE_S):
                result = await client.call_tool(tool, arguments)
            await anyio.to_thread.run_sync(thread.join)
            return result, ended[0]

    result, run = anyio.run(main)
    assert run["surface"] == "mcp"
    assert result.is_error
    assert result.structured_content["status"] == "cancelled"
    assert "ancelled" in result.content[0].text
