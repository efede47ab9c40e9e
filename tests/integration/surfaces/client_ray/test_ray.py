"""Batches on a real Ray cluster: all right whatever dies, nothing with effects, and answers that are checked.

`PADDOCK_RAY_PROGRAMS=10000` is the long form: 100 workers and 3 nodes are killed. `PADDOCK_RAY_VERDICTS=2000` is that
of the second test: 20 workers are killed.
"""

import os
import re
import uuid
from pathlib import Path

import pytest
from tests.support.ray_cluster import Cluster, run_with_ray

PAGE = Path(__file__).resolve().parents[4] / "docs" / "ray.md"
PROGRAMS = int(os.environ.get("PADDOCK_RAY_PROGRAMS", "300"))
NODE_KILLS = 3 if PROGRAMS >= 10_000 else 1
WORKER_KILLS = max(5, PROGRAMS // 100)
VERDICTS = int(os.environ.get("PADDOCK_RAY_VERDICTS", "200"))
VERDICT_KILLS = max(6, VERDICTS // 100)
PRINTS = {"id": "prints", "language": "python", "code": "print(1)"}
SAFE = "it changes nothing"


def test_no_program_is_lost_when_workers_and_nodes_die(cluster: Cluster) -> None:
    found = cluster.call("survive", programs=PROGRAMS, worker_kills=WORKER_KILLS, node_kills=NODE_KILLS)
    # Towards the end there may be no worker left to kill: the last programs have ended, and their results wait.
    assert WORKER_KILLS // 2 <= found.pop("worker kills") <= WORKER_KILLS
    assert found == {"answered": PROGRAMS, "wrong": [], "node kills": NODE_KILLS}


def test_all_verdicts_are_right_while_workers_die(cluster: Cluster) -> None:
    found = cluster.call("judge_while_workers_die", programs=VERDICTS, worker_kills=VERDICT_KILLS)
    assert VERDICT_KILLS // 2 <= found.pop("kills") <= VERDICT_KILLS
    assert found == {"answered": VERDICTS, "wrong": []}


def test_leaving_the_loop_ends_the_programs_at_once(cluster: Cluster) -> None:
    assert cluster.call("leave", marker=uuid.uuid4().hex) == ["1\n", [], "2\n"]


def test_a_program_ends_with_its_worker_and_runs_again(cluster: Cluster) -> None:
    assert cluster.call("outlive_worker", marker=uuid.uuid4().hex) is True


def test_each_program_has_its_own_status(cluster: Cluster) -> None:
    programs = [
        PRINTS,
        {"id": "fails", "language": "python", "code": "exit(3)"},
        {"id": "no-such", "language": "no-such", "code": ""},
        {"id": "slow", "language": "python", "code": "while True: pass", "timeout_ms": 500},
        {"id": "bytes", "language": "python", "code": "print(open('f', 'rb').read(), input())",
         "files": {"f": "x"}, "stdin": "ä"},
        {"id": "over", "language": "python", "code": "", "timeout_ms": 600_000},
    ]  # fmt: skip
    found = {id_: (status, text) for id_, status, text, _ in cluster.call("run", programs=programs)}
    assert found == {
        "bytes": ("ok", "b'x' ä\n"),
        "fails": ("failed", ""),
        "no-such": ("invalid", ""),
        "over": ("denied", ""),
        "prints": ("ok", "1\n"),
        "slow": ("timeout", ""),
    }


def test_a_program_reads_the_workspace_that_its_node_has(cluster: Cluster) -> None:
    program = {"id": "reads", "language": "python", "code": "import os; print(os.path.exists('log'))"}
    found = cluster.call("run", programs=[{**program, "access": "read-only"}, {**program, "id": "blind"}])
    assert [(id_, text) for id_, _, text, _ in found] == [("blind", "False\n"), ("reads", "True\n")]


def test_tests_judge_programs_on_nodes(cluster: Cluster) -> None:
    tests = [{"stdin": "2", "expect": "4"}, {"stdin": "3", "expect": "9"}]
    programs = [
        {"id": "right", "language": "python", "code": "print(int(input()) ** 2)", "tests": tests},
        {"id": "wrong", "language": "python", "code": "print(4)", "tests": tests},
        {"id": "perl", "language": "perl", "code": "print 4", "tests": tests},
    ]
    assert cluster.call("judge", programs=programs) == [
        ["perl", "unavailable", ["unavailable", "unavailable"]],
        ["right", "accepted", ["accepted", "accepted"]],
        ["wrong", "wrong_answer", ["accepted", "wrong_answer"]],
    ]


def test_an_asynchronous_iterator_is_read_as_well(cluster: Cluster) -> None:
    assert cluster.call("map_asynchronously", number=5) == sum(n**2 for n in range(5))


@pytest.mark.parametrize(
    ("given", "effect"),
    [
        ({"network": "full"}, "it may connect to other machines"),
        ({"access": "workspace-write"}, "it may write to the workspace"),
        ({"outputs": ["*.csv"]}, "it stores files (`outputs`) on the machine where it runs"),
    ],
)
def test_a_program_with_effects_is_refused_before_anything_starts(
    cluster: Cluster, given: dict[str, object], effect: str
) -> None:
    programs = [*[PRINTS] * 5, {**PRINTS, **given, "id": "last"}]
    reason = (
        f"the program last may have effects: {effect}; Ray may run a program twice, so leave out `engine`, or give it "
        "less"
    )
    assert cluster.call("refuse", programs=programs) == ["RequestError", reason, 0]
    name, text, _ = cluster.call("refuse", programs=programs, lazily=True)
    assert (name, text) == ("RequestError", reason)


def test_a_language_that_no_node_declares_is_unavailable(cluster: Cluster) -> None:
    program = {"id": "perl", "language": "perl", "code": "print 1"}
    assert cluster.call("run", programs=[program, PRINTS]) == [
        [
            "perl",
            "unavailable",
            "",
            "no node of the Ray cluster declares perl; install it on a node, and start the node with: "
            'ray start --resources "$(paddock runtimes --ray-resources)"',
        ],
        ["prints", "ok", "1\n", None],
    ]


def test_answers_of_workers_are_checked(cluster: Cluster) -> None:
    lies = ["no_bytes", "no_json", "nothing", "others", "twice", "a_verdict", "deep", "a_pickle", "raises"]
    found = cluster.call("be_lied_to", answers=lies)
    invalid = "The answer of the worker is not valid: The answer"
    assert found[:6] == [
        ["x", "lost", "", f"{invalid} is not a string of bytes."],
        ["x", "lost", "", f"{invalid} is not JSON, or not that of a share."],
        ["x", "lost", "", f"{invalid} has neither results nor a refusal."],
        ["x", "lost", "", f"{invalid} has results of other programs."],
        ["x", "lost", "", f"{invalid} has results of other programs."],
        ["x", "lost", "", "The answer of the worker has no verdict, or one too many."],
    ]
    assert found[6:] == [
        ["x", "lost", "", f"{invalid} is not JSON, or not that of a share."],
        [
            "x",
            "lost",
            "",
            "Ray lost its worker or its answer (UnserializableException), with every retry.",
        ],
        ["x", "unavailable", "", "Ray cannot run Paddock on its workers: ValueError: no answer"],
    ]


def test_only_the_program_that_kills_its_worker_is_lost(cluster: Cluster) -> None:
    assert cluster.call("poison") == [
        ["0", "ok", "0\n", None],
        ["1", "lost", "", "Ray lost its worker or its answer (WorkerCrashedError), with every retry."],
        ["2", "ok", "2\n", None],
        ["3", "ok", "3\n", None],
    ]


def test_a_node_without_paddock_is_unavailable(cluster: Cluster) -> None:
    [[absent], [wrong], unconnected] = cluster.call("without_paddock")
    assert absent[:3] == wrong[:3] == ["x", "unavailable", ""]
    assert absent[3].startswith("Ray cannot run Paddock on its workers: ")
    assert wrong[3].startswith("the node runs no programs: PADDOCK_NO_SUCH_KEY: unknown variable")
    assert (
        unconnected
        == "This process is not connected to a Ray cluster, and Paddock starts none; call `ray.init()` first."
    )


def test_an_executor_gives_results_in_the_order_of_the_programs(cluster: Cluster) -> None:
    results, refused, ended = cluster.call("use_executor", number=12)
    assert results == [[str(n), "ok", f"{n * n}\n", None] for n in range(12)]
    assert (refused, ended) == ("RequestError", "this executor was shut down; make another one")


def test_the_page_prints_what_it_shows(cluster: Cluster) -> None:
    text = PAGE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    printed = [cluster.call("run_block", block=block) for block in blocks]
    assert [each for each in printed if f"```text\n{each}```" not in text] == []


def test_the_library_loads_ray_only_for_a_batch_on_it() -> None:
    modules = [
        "paddock",
        "paddock.surfaces.client.ray.driver",
        "paddock.surfaces.client.ray.ray_executor",
        "paddock.surfaces.cli.runtimes",
    ]
    code = f"import sys, ray.exceptions, {', '.join(modules)}; print('ray' in sys.modules)"
    assert [run_with_ray(text) for text in (code, code.replace("ray.exceptions, ", ""))] == [
        "True\n",
        "False\n",
    ]
