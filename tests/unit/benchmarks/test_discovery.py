"""What the labelled questions say of the search: no change of weights or words makes it worse unseen."""

import importlib
import sys
from pathlib import Path

from paddock.engines.servers.catalog.search import ToolIndex

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
discovery = importlib.import_module("benchmarks.bench_discovery")
tasks, steps, by_words, share_of_steps = (
    discovery.tasks,
    discovery.steps,
    discovery.by_words,
    discovery.share_of_steps,
)
catalog, questions, recall = discovery.catalog, discovery.questions, discovery.recall


def test_every_label_names_a_tool():
    names = {tool.name for tool in catalog()}
    assert {name for _, right in questions() for name in right} <= names
    every = [tool.name for tool in (*catalog(), *discovery.invented())]
    assert len(set(every)) == len(every)
    asked = [step for task in (*tasks(), *steps()) for step in task.steps]
    assert [step for step in asked if not step.right or not step.right <= set(every)] == []


def test_search_finds_what_people_ask_for():
    index, asked = ToolIndex(catalog()), questions()
    assert (len(catalog()), len(asked)) == (230, 111)
    assert recall(index, asked[1::2], 10) >= 0.95
    assert recall(index, asked, 10) >= 0.93
    assert recall(index, asked, 5) >= 0.8


def test_a_query_for_each_step_finds_what_the_text_of_a_task_does_not():
    index = ToolIndex([*catalog(), *discovery.invented()])
    assert (len(tasks()), len(steps()), {len(task.steps) for task in tasks()}) == (150, 150, {2, 3, 4})
    search = by_words(index)
    assert share_of_steps(search, steps()) >= 0.72
    assert share_of_steps(search, tasks()) >= 0.68
    assert share_of_steps(search, tasks(), as_list=True) >= 0.95
