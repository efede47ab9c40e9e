"""What the labelled questions say of the search: no change of weights or words makes it worse unseen."""

import importlib
import sys
from pathlib import Path

from paddock.hub.search import Index

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
discovery = importlib.import_module("benchmarks.bench_discovery")
catalog, questions, recall = discovery.catalog, discovery.questions, discovery.recall


def test_every_label_names_a_tool():
    names = {tool.name for tool in catalog()}
    assert {name for _, right in questions() for name in right} <= names


def test_search_finds_what_people_ask_for():
    index, asked = Index(catalog()), questions()
    assert (len(catalog()), len(asked)) == (230, 111)
    assert recall(index, asked[1::2], 10) >= 0.95
    assert recall(index, asked, 10) >= 0.93
    assert recall(index, asked, 5) >= 0.8
