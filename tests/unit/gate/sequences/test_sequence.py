"""Sequence files: what they may say, and what is told of mistakes."""

import pytest

from paddock.gate.sequences.sequence import FILE_BYTES, Sequence, find, list_files, read
from paddock.model.errors import SdkError

STEP = '[[step]]\nname = "a"\nscript = "s"\n'


def parse(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    return read(path, Sequence)


def test_a_whole_sequence(tmp_path):
    found = parse(
        tmp_path,
        """
        description = "all"
        required = ["TOKEN"]
        [vars]
        REGION = "eu"
        [[step]]
        name = "fetch"
        server = "git/log"
        arguments = {path = "${REGION}", n = 3}
        on_failure = {run = "tidy"}
        [[step]]
        name = "count"
        runtime = "python"
        code = "print('${HOME}')"
        args = ["${steps.fetch.value.0}"]
        when = ["REGION == 'eu'", "steps.fetch.ok"]
        [[step]]
        name = "tidy"
        tool = "tidy"
        inputs = {why = "${steps.count.error.message}"}
        """,
    )
    assert [(step.name, step.kind) for step in found.step] == [
        ("fetch", "server"),
        ("count", "runtime"),
        ("tidy", "tool"),
    ]
    assert found.rescues == {"tidy"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "this is not TOML: "),
        ("", "step: Field required"),
        ("step = []", "step: Tuple should have at least 1 item after validation, not 0"),
        ("[[step]]\nname = 'a'\n", "step.0: a step has one of `script`, `runtime`, `tool`, `server` and `accept`; step a has none"),
        (STEP + "tool = 't'\n", "step.0: a step has one of `script`, `runtime`, `tool`, `server` and `accept`; step a has `script` and `tool`"),
        (STEP + "arguments = {}\n", "step.0: step a: `arguments` cannot be combined with `script`"),
        ("[[step]]\nname = 'a'\nserver = 'a/git/'\n", "step.0: step a: server = \"SERVER/TOOL\", not 'a/git/'"),
        ("[[step]]\nname = 'a'\nserver = 'git'\n", "step.0: step a: server = \"SERVER/TOOL\", not 'git'"),
        (STEP + STEP, "two steps are called a"),
        (STEP + "colour = 1\n", "step.0.colour: there is no such key"),
        (STEP + "on_failur = 'x'\n", "step.0.on_failur: there is no such key; did you mean `on_failure`?"),
        (STEP + "on_failure = 'retry'\n", "step.0.on_failure.literal['stop','continue']: "),
        (STEP + "on_failure = {run = 'b'}\n", "on_failure runs b, but there is no such step"),
        (STEP + "on_failure = {run = 'a'}\n", "step a runs when another step fails; it cannot have on_failure itself"),
        (STEP + "input = '${x}'\n", "step a uses ${x}, but the sequence has no variable with that name (it has none); name it in `required`, "),
        (STEP + "input = '${steps.a.value}'\n", "step a: ${steps.a.value} is not the result of an earlier step"),
        (STEP + "input = {on = [1979-05-27]}\n", "step.0.input: this is not a JSON value: Object of type date is not JSON serializable; write it as a text"),
        (STEP.replace("script", "tool") + "inputs = {n = nan}\n", "step.0.inputs: this is not a JSON value: Out of range float values are not JSON compliant"),
        (STEP.replace('script = "s"', 'server = "s/t"') + "arguments = {at = 07:32:00}\n", "step.0.arguments: this is not a JSON value: Object of type time is not JSON serializable"),
        (STEP + "when = 'a > 1'\n", "'a > 1' is not a condition; write NAME"),
        (STEP + "input = '${a b}'\n", "${a b} is not a reference"),
        ("vars = {steps = ''}\n" + STEP, "a variable cannot be called `steps`"),
        (STEP * 101, "step: Tuple should have at most 100 items after validation, not 101"),
        ("#" * FILE_BYTES + "\n" + STEP, "cannot be read: larger than 262144 bytes"),
    ],
)  # fmt: skip
def test_mistakes_are_taught(tmp_path, text, message):
    with pytest.raises(SdkError) as raised:
        parse(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path / 'x.toml'}: {message}")


def test_a_file_of_the_workspace_goes_before_one_of_the_home_directory(tmp_path, monkeypatch):
    home, workspace = tmp_path / "home", tmp_path / "ws"
    monkeypatch.setenv("HOME", str(home))
    for place, names in ((home, ("a", "b")), (workspace, ("a", ".hidden"))):
        folder = place / ".paddock" / "sequences"
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.toml").write_text(STEP)
    assert [(name, path.parents[2].name) for name, path in list_files(workspace, "sequences")] == [
        ("a", "ws"),
        ("b", "home"),
    ]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "nitely", ""])
def test_a_name_is_no_path(tmp_path, name):
    folder = tmp_path / ".paddock" / "sequences"
    folder.mkdir(parents=True)
    (folder / "nightly.toml").write_text(STEP)
    with pytest.raises(SdkError) as raised:
        find(name, tmp_path, "sequences")
    assert str(raised.value).startswith(
        f"there is no sequence called {name}\n  searched:\n    {folder}/*.toml"
    )
    assert str(raised.value).endswith("did you mean: nightly?") is (name == "nitely")
