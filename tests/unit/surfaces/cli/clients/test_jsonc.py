"""JSON with comments is edited in place: what was not meant stays as it is, byte for byte."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.surfaces.cli.clients.jsonc import MAX_DEPTH, JsoncError, parse, remove_member, set_member

NAMES = st.sampled_from(["a", "b", "mcpServers", "paddock", 'ü"\\', "// no comment", "/* nor this */", ""])
BLANKS = st.sampled_from(["", " ", "\n", "\n  ", "\t", "\r\n", " // c, } \n", "/* ], \n } */", " /* // */ "])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES


@st.composite
def written(draw, depth=2):
    """A value, and a text that holds it with blanks, comments and trailing commas wherever they may be."""
    kind = draw(st.sampled_from(["scalar", "list", "object"] if depth else ["scalar"]))
    if kind == "scalar":
        value = draw(SCALARS)
        return value, json.dumps(value, ensure_ascii=draw(st.booleans()))
    if kind == "list":
        items = draw(st.lists(written(depth - 1), max_size=2))
        return [value for value, _ in items], enclosed(draw, "[", [text for _, text in items], "]")
    return draw(objects(depth))


@st.composite
def objects(draw, depth=2):
    members = draw(st.dictionaries(NAMES, written(depth - 1), max_size=3))
    texts = [f"{json.dumps(name)}{draw(BLANKS)}:{draw(BLANKS)}{text}" for name, (_, text) in members.items()]
    return {name: value for name, (value, _) in members.items()}, enclosed(draw, "{", texts, "}")


def enclosed(draw, start, texts, end):
    filled = ",".join(f"{draw(BLANKS)}{text}{draw(BLANKS)}" for text in texts)
    comma = "," + draw(BLANKS) if texts and draw(st.booleans()) else draw(BLANKS)
    return f"{start}{filled}{comma}{end}"


def plain(text):
    """Return a text without what strict parsers do not know; strings stay as they are."""
    strings = r'("(?:[^"\\]|\\.)*")'
    text = re.sub(rf"{strings}|//[^\n]*|/\*.*?\*/", lambda found: found[1] or "", text, flags=re.DOTALL)
    return re.sub(rf"{strings}|,(?=\s*[\]}}])", lambda found: found[1] or "", text)


@given(written())
def test_what_is_read_is_what_was_written(made):
    value, text = made
    assert parse(text).value == value
    assert json.loads(plain(text)) == value


@given(objects(), st.lists(NAMES, min_size=1, max_size=3), written(depth=1))
def test_setting_changes_the_one_member_alone(made, path, new):
    value, text = made
    wanted = node = json.loads(json.dumps(value))
    for name in path[:-1]:
        node = node.setdefault(name, {}) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        with pytest.raises(ValueError, match="is not an object"):
            set_member(text, path, new[0])
        return
    node[path[-1]] = new[0]
    after = set_member(text, path, new[0])
    assert parse(after).value == wanted
    assert json.loads(plain(after)) == wanted
    comments = re.findall(r"// c, } |/\* \], \n } \*/|/\* // \*/", text)
    if path[0] not in value:
        assert [each for each in comments if each not in after] == []


@given(st.lists(NAMES, min_size=1, max_size=3), st.lists(NAMES, max_size=2), st.data())
def test_a_list_keeps_its_comments_when_items_change_or_are_added(items, added, data):
    text = enclosed(data.draw, "[", [json.dumps(item) for item in items], "]")
    new = ["new", *items[1:], *added]
    after = set_member(f'{{"args": {text}}}', ["args"], new)
    assert parse(after).value == {"args": new}
    assert json.loads(plain(after)) == {"args": new}
    comment = r"// c, } |/\* \], \n } \*/|/\* // \*/"
    assert re.findall(comment, after) == re.findall(comment, text)


@given(objects(), NAMES, written(depth=1))
def test_a_new_member_comes_and_goes_without_a_trace_but_for_blanks(made, name, new):
    value, text = made
    if name in value:
        return
    after = remove_member(set_member(text, [name], new[0]), [name])
    assert (parse(after).value, "".join(after.split())) == (value, "".join(text.split()))


@given(objects(), NAMES)
def test_removing_takes_the_one_member_alone(made, name):
    value, text = made
    after = remove_member(text, [name])
    wanted = {key: held for key, held in value.items() if key != name}
    assert parse(after).value == wanted
    assert json.loads(plain(after)) == wanted
    if name not in value:
        assert after == text


@given(st.text(alphabet='{}[]",:/*\\ \n0a1-.eE+tfn', max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        value = parse(text).value
    except JsoncError as error:
        value = {"told": str(error)}
    assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "line 1, column 1: the text ends where a value is expected"),
        ("{", "line 1, column 2: expected a name in double quotes, or `}`"),
        ('{"a" 1}', "line 1, column 6: expected `:` after the name"),
        ('{\n  "a": 1\n  "b": 2}', "line 3, column 3: expected a comma, or `}`"),
        ("[1 2]", "line 1, column 4: expected a comma, or `]`"),
        ("[,]", "line 1, column 2: expected a value"),
        ('{"a": NaN}', "line 1, column 7: expected a value"),
        ("{'a': 1}", "line 1, column 2: expected a name in double quotes, or `}`"),
        ('{"a": "b', "line 1, column 7: this string has no end, or contains a forbidden character"),
        ("{} /* end", "line 1, column 4: this comment has no end"),
        ("{} {}", "line 1, column 4: expected nothing after the value"),
        ("1" * 5000, "line 1, column 1: this number is too long"),
        ("[" * 300, f"line 1, column {MAX_DEPTH + 1}: nested more than {MAX_DEPTH} deep"),
    ],
)
def test_a_fault_is_told_with_its_place(text, fault):
    with pytest.raises(JsoncError) as refused:
        parse(text)
    assert str(refused.value) == fault


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "s": {\n    "x": 1\n  }\n}'),
        ('{"a": 1}', '{"a": 1, "s": {"x": 1}}'),
        ('{"a": 1,}', '{"a": 1, "s": {"x": 1},}'),
        ('{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "s": {\n    "x": 1\n  }\n}\n'),
        ('{\n  "a": 1, // one\n  // end\n}', '{\n  "a": 1, // one\n  "s": {\n    "x": 1\n  },\n  // end\n}'),
        ('{\n  "a": 1 // one\n}', '{\n  "a": 1, // one\n  "s": {\n    "x": 1\n  }\n}'),
        ('{\r\n\t"a": 1\r\n}', '{\r\n\t"a": 1,\r\n\t"s": {\r\n\t\t"x": 1\r\n\t}\r\n}'),
        ("{ // none yet\n}", '{ // none yet\n  "s": {\n    "x": 1\n  }\n}'),
        ('{"s": {"y": 2}}', '{"s": {"y": 2, "x": 1}}'),
        ('{"s": {"x": 2 /* old */}}', '{"s": {"x": 1 /* old */}}'),
    ],
)
def test_a_member_is_written_as_its_neighbours_are(before, after):
    assert set_member(before, ["s", "x"], 1) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"x": 1}', "{}"),
        ('{"x": 1, "a": 2}', '{"a": 2}'),
        ('{"a": 2, "x": 1}', '{"a": 2}'),
        ('{"a": 2, "x": 1,}', '{"a": 2,}'),
        ('{\n  "x": 1, // mine\n  "a": 2\n}', '{\n  "a": 2\n}'),
        ('{\n  "a": 2, // two\n  "x": 1\n}', '{\n  "a": 2 // two\n}'),
        ('{\n  "a": 2, // two\n  "x": 1 }', '{\n  "a": 2 // two\n }'),
        ('{\n  // of x\n  "x": 1, "a": 2\n}', '{\n  // of x\n  "a": 2\n}'),
        ('{ // why\n  "x": 1 }', "{ // why\n }"),
    ],
)
def test_a_member_goes_with_its_line(before, after):
    assert remove_member(before, ["x"]) == after


def test_what_stands_there_twice_is_not_edited():
    with pytest.raises(ValueError, match="`s` occurs twice there"):
        set_member('{"s": {}, "s": {}}', ["s", "x"], 1)
    assert set_member('{"a": 1, "a": 2}', ["x"], 1) == '{"a": 1, "a": 2, "x": 1}'
