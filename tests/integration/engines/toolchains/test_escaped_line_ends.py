"""Programs with a backslash and an `n` for line ends, or in a fence: the parser's message alone does not say so."""

import pytest

from paddock import BlockingPaddock
from paddock.model.texts import ESCAPED_LINE_ENDS, FENCED


@pytest.mark.parametrize(
    ("language", "code", "hint"),
    [
        ("python", r"a = 1\nprint(a)", ESCAPED_LINE_ENDS),
        ("javascript", r"let a = 1\nconsole.log(a)", ESCAPED_LINE_ENDS),
        ("ruby", r"a = 1\nputs a", ESCAPED_LINE_ENDS),
        ("c", r"int main(void) {\nreturn 0; }", ESCAPED_LINE_ENDS),
        ("python", "```python\nprint(1)\n```", FENCED),
        ("c", "```c\nint main(void) { return 0; }\n```", FENCED),
        ("python", r"raise ValueError('a\n')", ""),
        ("python", r"print('a\n'", ""),
    ],
)
def test_escaped_line_ends_have_a_hint(workspace, language, code, hint):
    with BlockingPaddock(workspace) as p:
        error = p.exec(language, code).error
        with p.session("python") as s:
            session_error = s.run(code).error if language == "python" else error
    assert error is not None
    assert session_error is not None
    assert [error.hint, session_error.hint] == [hint, hint]
