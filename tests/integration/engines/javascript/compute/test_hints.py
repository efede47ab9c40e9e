"""What a computation is told of what it has not."""

import pytest

EMIT = "a computation outputs its result with emit(text), once or several times"
AT_ONCE = "a computation has no timers, and nothing to wait for"
ALONE = "a computation has its input and nothing else: no modules, files, network or servers"
PLAIN = "a computation is plain JavaScript, without types"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("console.log(5)", EMIT),
        ("return 5", EMIT),
        ("export default 5", EMIT),
        ("emit(input)", "read_input() returns the input, a string"),
        ("await servers.git.log()", AT_ONCE),
        ("emit(await 5)", AT_ONCE),
        ("setTimeout(() => emit(1), 10)", AT_ONCE),
        ("const fs = require('fs')", ALONE),
        ("import fs from 'fs'", ALONE),
        ("emit(new Intl.Segmenter())", "Intl is available with `limits.deterministic: false`"),
        ("const x: number = 5", PLAIN),
        ("interface Row { id: string }", PLAIN),
        ("emit(True)", "this is JavaScript: true, false, null"),
        ("```js\nemit(1)\n```", "send the program alone, without the fence around it"),
        ("emit(nothing)", ""),
        ("let x = ;", ""),
        ("JSON.parse('')  // no await", ""),
        ("''()", ""),
        ("throw new Error('console is not defined')", ""),
    ],
)
def test_what_a_computation_has_not_has_a_hint(answer, source, hint):
    found = answer(source)
    assert (found.code, found.hint) == ("EVAL_ERROR", hint)
    assert "hint" not in found.error
