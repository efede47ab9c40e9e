"""The rule that `paddock policy flows` proposes after its labels."""

from paddock.gate.flow.proposal import propose_labels, render_rule

RULE = """\
[[flow.rule]]
source = ["private", "untrusted"]
sink = "external"
effect = "ask\""""


def test_the_rule_says_which_labels_it_would_wait_for_in_vain() -> None:
    assert render_rule(propose_labels({"mail": [], "web": []})) == RULE
    assert render_rule(propose_labels({"files": [], "web": []})) == RULE
    lacking = "# no label above is untrusted or external: label such tools, or leave out this rule\n"
    assert render_rule(propose_labels({"git": [], "files": []})) == lacking + RULE
    assert render_rule(()) == lacking.replace("untrusted", "private or untrusted") + RULE
