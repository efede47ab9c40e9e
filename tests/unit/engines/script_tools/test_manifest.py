"""`tool.yaml` as others write it, and as attackers do."""

import datetime as dt
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.script_tools import yaml
from paddock.engines.script_tools.manifest import (
    ManifestError,
    ToolExecution,
    ToolManifest,
    read,
    unknown_fields,
)

with pytest.raises(ValueError, match=r"^month must be in 1\.\.12") as refusal:
    dt.date(2020, 99, 99)
NO_MONTH = str(refusal.value)
"""Python's word, which is not the same in all versions."""

LEAST = "id: a\nname: A\nscript: a.py\n"


def test_the_least_manifest():
    assert read(LEAST) == ToolManifest(id="a", name="A", script="a.py")
    assert read(LEAST).execution == ToolExecution(trigger="schema_match", confirm=True, strict=False)


def test_every_field():
    text = """\
id: Analyze_CSV
name: "CSV: analyser"
description: |
  Reads a file.
runtime: python
script: script.py
schemaFile: s.json
descriptionFile: d.md
timeout: 1500
env: {A: on, B: "1", C: no, D: 12:30, E: 1_000}
workingDir: sub
enabled: false
execution:
  trigger: explicit
  confirm: false
  strict: true
  confirmMessage: Sure?
  autoApproveOnValid: true
workspace: read-only
network: full
"""
    assert read(text) == ToolManifest(
        id="Analyze_CSV",
        name="CSV: analyser",
        description="Reads a file.\n",
        runtime="python",
        script="script.py",
        schema_file="s.json",
        description_file="d.md",
        timeout=1500,
        env={"A": "on", "B": "1", "C": "no", "D": "12:30", "E": "1_000"},
        working_dir="sub",
        enabled=False,
        execution=ToolExecution(
            trigger="explicit",
            confirm=False,
            strict=True,
            confirm_message="Sure?",
            auto_approve_on_valid=True,
        ),
        workspace="read-only",
        network="full",
    )


@pytest.mark.parametrize(
    "network", ["[api.example.com, 10.0.0.1]", "hosts\nhosts: [api.example.com, 10.0.0.1]"]
)
def test_hosts_are_a_list_of_the_network_or_beside_it(network: str):
    manifest = read(f"{LEAST}network: {network}\n")
    assert (manifest.network, manifest.hosts) == ("hosts", ("api.example.com", "10.0.0.1"))


@pytest.mark.parametrize(
    ("section", "meant"),
    [
        ("{mode: auto}", ToolExecution(confirm=False)),
        ("{mode: manual}", ToolExecution(trigger="explicit")),
        ("{mode: confirm, confidence: 0.5}", ToolExecution()),
        ("{mode: auto, confirm: true}", ToolExecution()),
        ("{trigger: parameter_match}", ToolExecution()),
        ("{trigger: never}", ToolExecution(trigger="never")),
    ],
)
def test_deprecated_words_mean_what_they_meant(section: str, meant: ToolExecution):
    assert read(f"{LEAST}execution: {section}\n").execution == meant


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a mapping of fields"),
        ("- a", "expected a mapping of fields"),
        ("id: a\nname: ''\n", "name: must not be empty; script: is missing"),
        (LEAST + "timeout: 0", "timeout: Input should be greater than 0"),
        (LEAST + "timeout: .inf", "timeout: Input should be a finite number"),
        (LEAST + "timeout: '5'", "timeout: Input should be a valid number"),
        (LEAST + "env: {A: 1}", "env.A: must be a text; put it in quotes"),
        (LEAST + "enabled: on", "enabled: Input should be a valid boolean"),
        (LEAST + "network: some", "network: Input should be 'none', 'loopback', 'hosts' or 'full'"),
        ("id: ../x\nname: a\nscript: b", "id: must be 1 to 100 letters, digits, `_`, `.` and `-`, and not begin with `.` or `-`"),
        (LEAST + "id: b", "line 4: id occurs twice"),
        (LEAST + "? [a]\n: b", "line 4: a key must be a text"),
        ("a: [1", "line 1: expected ',' or ']', but got '<stream end>'"),
        ("a: \x07", "unacceptable character #x0007: special characters are not allowed"),
        ("a: !!python/object/apply:os.system [id]", "line 1: could not determine a constructor for the tag "
         "'tag:yaml.org,2002:python/object/apply:os.system'"),
        ("--- 1\n--- 2", "line 2: but found another document"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, why: str):
    with pytest.raises(ManifestError) as refused:
        read(text)
    assert str(refused.value) == why


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "line 1: anchors and aliases are not supported; write the value out"),
        ("a: &a [*a]", "line 1: anchors and aliases are not supported; write the value out"),
        ("[" * 30_000, "line 1: nested more than 20 deep"),
        ("{a: " * 10_000, "line 1: nested more than 20 deep"),
        ("- " * 30_000, "line 1: nested more than 20 deep"),
        ("x" * 70_000, "more than 65536 characters"),
        ("a: " + "9" * 60_000, "line 1: a number of more than 100 digits"),
        ("a: 0x" + "f" * 60_000, "line 1: a number of more than 100 digits"),
        ("{" + "a," * 30_000 + "}", "line 1: more than 5000 values and keys"),
        ("a: !!bool x", "a value does not fit the tag in front of it"),
        ("a: !!float ''", "a value does not fit the tag in front of it"),
        ("a: !!timestamp x", "a value does not fit the tag in front of it"),
        ("!!timestamp 2020-99-99", NO_MONTH),
    ],
    ids=["laughs", "itself", "lists", "maps", "items", "size", "digits", "hex", "many", "bool", "float", "moment", "date"],
)  # fmt: skip
def test_bombs_do_not_go_off(text: str, why: str):
    with pytest.raises(yaml.YamlError) as refused:
        yaml.read(text)
    assert str(refused.value) == why


def test_types_are_those_of_yaml_1_2():
    text = "[~, null, true, False, 010, 0o17, 0xff, -5, 1.5, 1e3, .5, on, y, 12:30, 2020-01-01, 1_0, '1', <<]"
    assert yaml.read(text) == [
        None, None, True, False, 10, 15, 255, -5, 1.5, 1000.0, 0.5, "on", "y", "12:30", "2020-01-01", "1_0", "1", "<<",
    ]  # fmt: skip


def test_misspelled_fields_are_found():
    assert unknown_fields(LEAST + "timeOut: 5\nexecution: {confrim: true, mode: auto}") == [
        "timeOut",
        "execution.confrim",
    ]
    assert unknown_fields(LEAST) == []


@given(st.text(alphabet="ab:-[]{}&*!'\"\n #,?|>%@0~.<", max_size=40))
def test_any_text_is_read_or_refused(text: str):
    with suppress(yaml.YamlError):
        yaml.read(text)
