"""How much of a program the reader takes, and that no text keeps it busy."""

import pytest


def test_too_deep_a_program_is_refused_and_the_next_one_runs(host):
    assert host.refusal("[" * 20_000).message == "Not enough stack space to parse input"
    deep = host.refusal("let x: " + "[" * 20_000, "typescript")
    assert deep.message == "The program is nested too deeply to be parsed as TypeScript"
    assert host.value("const a: number = 1; a") == 1


def test_more_module_words_than_any_program_needs_are_refused(host):
    error = host.refusal("export {};\n" * 101)
    assert (error.message, error.line, error.column) == ("More than 100 imports and exports", 101, 1)


@pytest.mark.parametrize(
    "source",
    [
        "```" + "a" * 50_000 + "`",
        "```" + " " * 50_000 + "`",
        "~" * 50_000 + "`",
        "=<a>" * 12_500,
        "```\n" * 12_500,
        "(" + "&" * 50_000,
        "export " + "//" * 25_000 + "\n5",
        "export {" + " a," * 16_000 + "};1",
        "export { a //" + "as //" * 9_000 + "\n};1",
        "const a = 1; export { /* }" + "/* " * 15_000 + "*/ a }",
        "import { type a" + " " * 49_000 + "1",
    ],
    ids=[
        "label",
        "no label",
        "tildes",
        "tags",
        "fences",
        "ampersands",
        "comments",
        "exports",
        "commented",
        "unclosed",
        "blanks",
    ],
)
def test_no_text_keeps_the_reader_busy(host, source):
    # A pattern that can match in more than one way takes many seconds for some of these.
    host.read(source, "javascript")
