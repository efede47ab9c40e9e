"""The compiler knows every global of a program."""

import re

from paddock.engines.types.check import CheckedText

GLOBAL = {"globalThis", "self"}
"""A program that names these may have made other names; then none counts as unknown."""


def test_no_global_of_a_program_is_unknown_to_the_compiler(opened, check_all):
    code = "return Object.getOwnPropertyNames(globalThis).filter((name) => /^\\w+$/.test(name))"
    names = sorted({*opened.execute(code).check().value, "input", "servers"} - GLOBAL)
    assert {"Array", "Temporal", "URL", "paddock", "setTimeout"} < set(names)
    text = "".join(f"void {name};\n" for name in names)
    (result, other) = check_all(
        *((CheckedText(each, each, "typescript"), []) for each in (text, "void Buffer;"))
    )
    assert [each.message for each in other.wrong] == ["Cannot find name 'Buffer'."]
    unknown = [re.sub(r".*'(.*)'.*", r"\1", each.message) for each in result.wrong]
    assert (unknown, result.failure) == ([], "")
