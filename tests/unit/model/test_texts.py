import importlib.metadata

import pytest
from pydantic import BaseModel, Field, ValidationError, model_validator

from paddock.model.texts import (
    FieldFault,
    ellipsis,
    explain,
    find_nearest,
    has_escaped_line_ends,
    install_command,
    list_faults,
    suggest,
)


class Inner(BaseModel):
    size: int = Field(le=3)


class Outer(BaseModel):
    name: str
    inner: list[Inner] = []

    @model_validator(mode="after")
    def refuse_nobody(self) -> "Outer":
        if self.name == "nobody":
            raise ValueError("nobody has no size")
        return self


def reject(given: object) -> ValidationError:
    with pytest.raises(ValidationError) as rejected:
        Outer.model_validate(given)
    return rejected.value


def test_faults_are_lines_of_path_and_message_the_first_one_by_default():
    problem = reject({"inner": [{"size": 1}, {"size": 9}]})

    assert explain(problem) == ["name: Field required"]
    assert explain(problem, limit=None) == [
        "name: Field required",
        "inner.1.size: Input should be less than or equal to 3",
    ]


def test_messages_and_names_are_those_of_the_reader():
    problem = reject({"inner": [{"size": 1}, {"size": 9}]})

    assert explain(
        problem,
        messages={"missing": "is missing", "less_than_equal": "at most {le}"},
        names={"inner": "", "size": "howMany"},
        limit=2,
    ) == ["name: is missing", "1.howMany: at most 3"]


def test_a_fault_of_the_whole_value_has_no_path_and_the_words_of_its_validator():
    problem = reject({"name": "nobody"})

    assert list_faults(problem) == [FieldFault((), "value_error", "nobody has no size")]
    assert explain(problem) == ["nobody has no size"]


def test_an_unknown_field_gets_the_nearest_of_its_model():
    class Closed(BaseModel, extra="forbid"):
        size_bytes: int = Field(default=0, alias="sizeBytes")

    class Holder(BaseModel, extra="forbid"):
        items: dict[str, list[Closed] | None] = {}

    with pytest.raises(ValidationError) as rejected:
        Holder.model_validate({"items": {"items": [{"sizeByte": 1, "colour": 2}]}, "itms": 3})

    messages = {"extra_forbidden": "is unknown"}
    assert explain(rejected.value, messages=messages, limit=None, model=Holder) == [
        "items.items.0.sizeByte: is unknown; did you mean `sizeBytes`?",
        "items.items.0.colour: is unknown",
        "itms: is unknown; did you mean `items`?",
    ]


def test_a_value_is_never_repeated():
    assert "hunter2" not in repr(list_faults(reject({"name": {"hunter2": "hunter2"}}), limit=None))


def test_the_nearest_names_come_first():
    known = ["list_files", "read_file", "read_files"]

    assert find_nearest("read_fil", known) == ["read_file"]
    assert find_nearest("read_fil", known, limit=2) == ["read_file", "read_files"]
    assert find_nearest("read_fil", known, cutoff=0.99) == []


def test_a_suggestion_ends_a_message():
    assert suggest("pyton", ["node", "python"]) == "; did you mean `python`?"
    assert suggest("pyton", ["node"]) == ""


def test_only_the_beginning_of_a_long_name_is_compared():
    assert find_nearest("a" * 200 + "b" * 1_000_000, ["a" * 200]) == ["a" * 200]


def test_a_text_longer_than_the_bound_ends_in_an_ellipsis_within_it():
    assert ellipsis("123456", 6) == "123456"
    assert ellipsis("1234567", 6) == "123..."


@pytest.mark.parametrize(
    ("code", "escaped"),
    [
        (r"a = 1\nprint(a)", True),
        (r'print("a")\nprint("b")\n', True),
        (r"print('a\n' + 1", False),
        (r'print("a\"\n"', False),
        (r"`${a}\n`", False),
        ("a = 1\n" r"b = '\n'", False),
        ("print(1)", False),
        ('\\"' * 1_000_000 + r"\n", False),
    ],
)
def test_a_backslash_and_an_n_outside_of_strings_stand_for_line_ends(code, escaped):
    assert has_escaped_line_ends(code) is escaped


@pytest.mark.parametrize(
    ("origin", "installer", "command", "again"),
    [
        (
            None,
            "pip",
            "pip install 'paddock-sandbox[ray]'",
            "pip install --force-reinstall 'paddock-sandbox[ray]'",
        ),
        (
            '{"url": "file:///home/ada/paddock", "dir_info": {"editable": true}}',
            "pip",
            "pip install '.[ray]' in the checkout of Paddock",
            "pip install --force-reinstall '.[ray]' in the checkout of Paddock",
        ),
        (
            '{"url": "file:///tmp/a%20b/paddock_sandbox-1.whl", "archive_info": {}}',
            "uv",
            "uv pip install './paddock_sandbox-1.whl[ray]' in the folder of this file",
            "uv pip install --reinstall './paddock_sandbox-1.whl[ray]' in the folder of this file",
        ),
        (
            '{"url": "https://example.com/paddock.whl"}',
            "uv",
            "uv pip install 'paddock-sandbox[ray]'",
            "uv pip install --reinstall 'paddock-sandbox[ray]'",
        ),
        (
            "not JSON",
            "pip",
            "pip install 'paddock-sandbox[ray]'",
            "pip install --force-reinstall 'paddock-sandbox[ray]'",
        ),
    ],
)
def test_the_command_for_an_extra_knows_where_paddock_came_from(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, installer: str, command: str, again: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return f"{installer}\n" if name == "INSTALLER" else origin

    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: Installed())
    assert (install_command("ray"), install_command("ray", again=True)) == (command, again)
