"""Where a program may run: the languages of nodes as resources of Ray."""

from paddock.surfaces.client.ray.nodes import explain_missing, find_missing, name_resources, place

DECLARED = {"CPU": 2.0, "paddock:python": 1.0}


def test_a_node_declares_its_languages() -> None:
    assert name_resources(["python", "c"]) == {"paddock:python": 1, "paddock:c": 1}


def test_a_task_asks_for_languages_only_if_a_node_declares_any() -> None:
    assert place(["python"], {"CPU": 2.0}) == {}
    assert place(["python", "rust"], DECLARED) == {"paddock:python": 0.001, "paddock:rust": 0.001}


def test_what_no_node_has_is_named() -> None:
    assert find_missing(["CPU", "paddock:python"], DECLARED) == []
    assert find_missing(["CPU", "paddock:c"], {"CPU": 0.0}) == ["CPU", "paddock:c"]
    assert explain_missing(["CPU"]) == "the Ray cluster has no node with a CPU; add a node"
    assert explain_missing(["paddock:c", "paddock:rust"]) == (
        "no node of the Ray cluster declares c and rust; install it on a node, and start the node with: "
        'ray start --resources "$(paddock runtimes --ray-resources)"'
    )
