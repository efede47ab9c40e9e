"""Everything that intake accepts or refuses: (text, value) and (text, place and reason)."""

import base64
import json
from pathlib import Path

import pytest
from py_mini_racer import MiniRacer

from paddock.engines.javascript import parse
from paddock.engines.javascript.child import parse_worker
from paddock.engines.javascript.parse import ParsedProgram

SCRIPTS = Path(parse.__file__).parent / "js"
U = "<undefined>"

VALUES = [
    # One expression.
    ("1+1", 2),
    ("1 + 1;", 2),
    ("  \n\n 1+1 \n\n", 2),
    ("'text'", "text"),
    ("'use strict'", U),
    ("(1, 2)", 2),
    ("/x/.test('x')", True),
    ("`a${1}b`", "a1b"),
    ("await servers.github.list({limit: 2})", [1, 2]),
    ("servers.github.list()", [1, 2, 3]),
    ("input.a", 7),
    ("this", U),
    # An object literal is no block.
    ("{a:1}", {"a": 1}),
    ("{a:1, b:2}", {"a": 1, "b": 2}),
    ("{}", {}),
    ("{ a: 1 };", {"a": 1}),
    ("{ 'x-y': [1], f() { return 1 } }", {"x-y": [1]}),
    ("{ seen.push(1); 5 }", 5),
    ("({a:1})", {"a": 1}),
    ("", U),
    ("// nothing\n/* at all */", U),
    # The value of the last expression.
    ("const a = 2; a * 3", 6),
    ("let a = 2\na = 5", 5),
    ("const a = 2", U),
    ("nowhere = 1", "ReferenceError"),
    ("1; ;", 1),
    ("f(); function f() { return 9 }", 9),
    ("1; class A {}", U),
    ("for (const a of [1, 2]) { a }", U),
    ("if (input) { 1 } else { 2 }", 1),
    ("if (!input) 1; else if (input.a) 2; else 3", 2),
    ("try { null.x } catch (e) { e.name } finally { 3 }", "TypeError"),
    ("try { 4 } finally { 3 }", 4),
    ("{ const a = 3; { a } }", 3),
    ("const t = 5 // note", U),
    ("using r = { [Symbol.dispose]() { seen.push('closed') } }; seen.length", 0),
    ("await using r = { async [Symbol.asyncDispose]() {} }; 3", 3),
    ("5 // note", 5),
    ("5 /* note */ ;  // note", 5),
    ("f\n(1)\nfunction f(x) { return x }", 1),
    ("const a = [3]\na.map((x) => x + 1)", [4]),
    # Top-level return and await.
    ("return 1 + 1", 2),
    ("function f() { let await = 2; return await } f()", 2),
    ("({ await: 3 }).await", 3),
    ("return", U),
    ("if (input.a === 7) return 'early'; 'late'", "early"),
    ("if (input.a !== 7) return 'early'; 'late'", "late"),
    ("for await (const a of [1]) { return a }", 1),
    ("const a = await Promise.resolve(3); return a", 3),
    ("return Promise.resolve(3)", 3),
    ("return {\n  a: 1\n}", {"a": 1}),
    # A function as the whole program is called with `input`.
    ("async () => { return 1 }", 1),
    ("() => 2", 2),
    ("(x) => x.a", 7),
    ("x => x.a;", 7),
    ("(async (x) => { return x.a })", 7),
    ("async function main(x) { return x.a }", 7),
    ("function main() { return 1 }", 1),
    ("function (x) { return x.a }", 7),
    ("async function (x) { return x.a };", 7),
    ("const go = async (x) => x.a", 7),
    ("function a() { return 1 }\nfunction main(x) { return a() + x.a }", 8),
    ("const one = 1;\nasync function main(x) { return one + x.a }", 8),
    ("async function main() { seen.push(1); return 2 }\nconst got = await main();", U),
    ("function a() {}\nfunction b() {}", U),
    (
        "const own = /(a)/, seenOnes = new Map(), text = `b`;\nfunction main(x) { return x.a + seenOnes.size }",
        7,
    ),
    ("const rows = await servers.github.list({ limit: 2 })\nfunction main() { return rows }", [1, 2]),
    ("enum A { B = 4 }\nfunction main(): number { return A.B }", 4),
    ("(() => 3)()", 3),
    ("(async () => { return 4 })()", 4),
    ("const x = async () => 4; x()", 4),
    ("'use strict';\n(x) => x.a", 7),
    # Classes.
    ("class A { accessor x = 4; static accessor y: number = 3 }\nnew A().x + A.y", 7),
    ("class A { accessor = 4; static accessor() { return 3 } }\nnew A().accessor + A.accessor()", 7),
    ("class A { accessor #x = 7; get x() { return this.#x } }\nnew A().x", 7),
    ("class A { accessor\nx = 7 }\nreturn [Object.keys(new A())]", [["accessor", "x"]]),
    ("namespace N { export const x = 7 }\nimport y = N.x\ny", 7),
    ("const N = { M: { x: 7 } }\nimport y = N.M.x;\ny", 7),
    ("interface T { a: number }\nimport type { U } from 'u'\nimport V = Types.V;\n7", 7),
    # Modules' words.
    ("export default 42", 42),
    ("export default { a: 1 }", {"a": 1}),
    ("export default async (x) => x.a", 7),
    ("export default { async run(x) { return x.a }, name: 'it' }", 7),
    ("class A { run(x) { return x.a } }\nconst a = new A(); export { a as default }", 7),
    ("export default function (x) { return x.a }", 7),
    ("export default async function main(x) { return x.a }\n(1)", 7),
    ("const f = () => 5\nexport default f", 5),
    ("export default class A { static toJSON() { return 'A' } }", "A"),
    ("export default class { static toJSON() { return 'A' } }\n(1)", "A"),
    ("export const a = 1; a + 1", 2),
    ("export function f(x) { return x.a }", 7),
    ("const a = 1; export { a, a as b }\na", 1),
    ("const a = 4, b = 1; b; export { b, a as default }", 4),
    ("const helper = (n) => n; async function run(x) { return helper(x.a) } export{run as default};", 7),
    ("const a = 5; export {/* it */ a // and\n as 'default', a as b}\n1", 5),
    ("import type { A } from 'a'\nlet a = 1\na", 1),
    # Outer forms.
    ("\ufeff1+1", 2),
    ("\ufeff#!/usr/bin/env node\n3", 3),
    ("#!/usr/bin/env node\nreturn 3", 3),
    ("'use strict'; return this", U),
    ("const a = 1\r\nconst b = 2\r\na + b", 3),
    ("const a = 1\rreturn a", 1),
    ("let input = 3; input", 3),
    ("const { a: input } = { a: 4 }; export default () => input", 4),
    ("const input = (x) => x.a", 7),
    ("'\u2028' + 1", "\u20281"),
    # Markdown.
    ("```js\n1+1\n```", 2),
    ("```\nreturn 2\n```", 2),
    ("```JavaScript title=x\nreturn 2\n```\n", 2),
    ("Here is **the** program, `it` works:\n\n```js\nconst a = 1\na + 1\n```\n\nWasn't that `nice`?", 2),
    ("Don`t worry:\n```js\n1+1\n```", 2),
    ("Solution:\n```js\n1+1\n```", 2),
    ("First\n```js\nconst a = 1\n```\nthen\n```js\na + 1\n```", 2),
    ("Run `npm i`:\n```bash\nnpm i\n```\nthen\n```js\n3\n```", 3),
    ("1. Do\n    ```js\n    4\n    ```", 4),
    ("````js\nconst a = '```'\na\n````", "```"),
    ("```js\r\n5\r\n```\r\n", 5),
    ("```jsx\n5\n```", 5),
    ("```tsx\nconst a: number = 5; a\n```", 5),
    ("```js\n6", 6),
    ("```ts\nconst a: number = 7; a\n```", 7),
    ("```js\nconst a: number = 7; a\n```", 7),
    ("const md = `\n\\`\\`\\`js\nx\n\\`\\`\\`\n`; md", "\n```js\nx\n```\n"),
    ("/*\n```js\n1\n```\n*/ 2", 2),
    ("~~~js\n1+1\n~~~", 2),
    ("~~~~\n2\n~~~~", 2),
    ("~~~js\nconst a = `b`\na\n~~~", "b"),
    ('```ts title="x" {1,3}\nconst a: number = 4; a\n```', 4),
    ("````md\nText\n```js\n5\n```\n````", 5),
    ("Text\n````\n```js\n6\n```\n```js\n7\n```\n````\nmore", 7),
    ("````js\n`\n\\`\\`\\`\n`.length\n````", 5),
    ("return 8;\n```", 8),
    ("javascript\nreturn 10", 10),
    ("TypeScript\r\nconst a: number = 11; a", 11),
    # TypeScript.
    ("const n: number = 1; return n", 1),
    ("const f = <T,>(x: T): T => x; f<string>('a')", "a"),
    ("const f = (x) => [x]; f<string>('b')", ["b"]),
    ("const m = new Map<string, number>([['a', 1]]); m.get('a')!", 1),
    ("type A = { a: number }\ninterface B extends A {}\nconst x = { a: 1 } satisfies B as const\nx.a", 1),
    ("enum Colour { Red = 2, Blue }\nColour.Blue", 3),
    ("enum Colour { Red = 'r' }\nreturn Object.values(Colour)", ["r"]),
    ("namespace N { export const a = 4 }\nN.a", 4),
    (
        "class P { constructor(readonly a: number, private b = 2) {} sum() { return this.a + this.b } }\nnew P(1).sum()",
        3,
    ),
    ("const a = <number>5; a", 5),
    (
        "abstract class A { abstract f(): number; g(): number { return this.f() } }\nclass B extends A { f() { return 6 } }\nnew B().g()",
        6,
    ),
    (
        "function f(a: string): string;\nfunction f(a: number): number;\nfunction f(a: any) { return a }\nf(7)",
        7,
    ),
    ("let x!: number; x = 8; x", 8),
    ("declare const nothing: string\ndeclare module 'm' { export const a: number }\n9", 9),
    ("import type { A } from 'a'; const r: A = await 1; return r", 1),
    ("import { type A, type B } from 'a'; const r: A = 2; r", 2),
    ("export type A = number\nexport interface B {}\nexport const a: A = 3\na", 3),
    ("type A = number; const a: A = 3; export type { A as default }\na", 3),
    ("type A = number; const a: A = 3; export { type A as default }\na", 3),
    ("export default async function main(x: { a: number }): Promise<number> { return x.a }", 7),
    ("export enum E { A = 4 }\nexport default () => E.A", 4),
    ("async (x: any): Promise<number> => x.a", 7),
    ("{ a: 1 as number }", {"a": 1}),
    ("const f = async <T>(x: T) => x\ntype A = 1\n[1].length", 1),
    ("const a: string = '日本 😀'; type E = '😀'; a", "日本 😀"),
    ("const a = 1, b = 2, c = 3; [a < b > (c)].length", "TypeError"),
]

REFUSALS = [
    ("let x = ;", 1, 9, "Unexpected token ';'"),
    ("const a = 1\nfoo(", 2, 5, "Unexpected end of input"),
    ("const a = 1;\n\nif (a) {\n\n", 3, 9, "Unexpected end of input"),
    ("```js\nfoo(\n```\nbye", 2, 5, "Unexpected end of input"),
    ("Text\n```js\nconst a = 1\nlet = 2\n```", 4, 1, "The keyword 'let' is reserved"),
    ("new await", 1, 5, "Unexpected reserved word"),
    ("1\nlet await = 2", 2, 5, "Unexpected reserved word"),
    ("a b", 1, 3, "Unexpected token 'b'"),
    ("let a; let a", 1, 12, "Identifier 'a' has already been declared"),
    ("return 010", 1, 8, "Invalid number"),
    ("'\t😀' x", 1, 7, "Unexpected token 'x'"),
    ("x = \u201ca\u201d", 1, 5, "Unexpected character '\u201c'"),
    ("let s = `abc", 1, 10, "Unterminated template"),
    ("break", 1, 1, "'break' stands in no loop, switch or block of that label"),
    ("for (;;) { (() => { continue })() }", 1, 21, "'continue' stands in no loop, or in none of that label"),
    ("f() = 1", 1, 1, "Invalid left-hand side of an assignment"),
    ("let a\u200b = 1", 1, 6, "Unexpected character U+200B, which is invisible"),
    ("// \U0001f600\nlet a = '\ud83d'", 2, 10, "Half of a character (a lone surrogate); write it as an escape like \\ud83d"),
    ("[1].map((n) => await servers.a.b(n))", 1, 16, "AWAIT"),
    ("for (const n of [1]) { [n].forEach(function (m: number) {\n  await servers.a.b(m) }) }", 2, 3, "AWAIT"),
    ("for (const n of [1]) { (() => { for await (const m of []) {} })() }", 1, 37, "AWAIT"),
    ("class A { x = await f() }", 1, 15, "await cannot stand here; await the value before, and use its name"),
    ("const x;", 1, 7, "A 'const' must be given a value where it is declared"),
    ("let a = 1\nconst x", 2, 7, "A 'const' must be given a value where it is declared"),
    ("const x: number;", 1, 7, "A 'const' must be given a value where it is declared"),
    ("let x: number; const y;", 1, 22, "A 'const' must be given a value where it is declared"),
    ("class A { accessor x() {} }", 1, 11, "'accessor' stands before a field"),
    ("class A { static accessor x() {} }", 1, 18, "'accessor' stands before a field"),
    ("class A { override f() {} }", 1, 20, "'override' stands in a class that extends no other"),
    ("return [1].map(x =&gt; x)", 1, 22, "The text is escaped for HTML (&gt;); send it as it is"),
    ("if (a &amp;&amp; b) return 1", 1, 11, "The text is escaped for HTML (&amp;); send it as it is"),
    ("super.x", 1, 1, "'super' keyword outside a method"),
    ("{a: 1, b: }", 1, 11, "Unexpected token '}'"),
    # No text closes the wrapper.
    ("})(); evil(); (async()=>{", 1, 1, "Unexpected token '}'"),
    ("}; evil(); async function z(){", 1, 1, "Unexpected token '}'"),
    ("const a: number = 1; return a }); evil(); (async function(){", 1, 31, "Unexpected token '}'"),
    ("enum A {x}\n} evil(); async function z() {", 2, 1, "Unexpected token '}'"),
    ("x<!--y, {\n}", 1, 2, "HTML-like comments (<!-- and -->) are not supported"),
    ("--> 1", 1, 1, "HTML-like comments (<!-- and -->) are not supported"),
    ("function f() { return 1 }}\nreturn 1", 1, 26, "Unexpected token '}'"),
    ("export default 1 }); (async()=>{", 1, 18, "Unexpected token '}'"),
    # Modules.
    ("import fs from 'fs'", 1, 1, "IMPORT"),
    ("const a = 1\nimport { b } from 'b'", 2, 1, "IMPORT"),
    ("const a: number = 1\nimport { b } from 'b'", 2, 1, "IMPORT"),
    ("import 'side-effect'", 1, 1, "IMPORT"),
    ("const fs = await import('fs')", 1, 18, "IMPORT"),
    ("const url: string = import.meta.url", 1, 21, "IMPORT"),
    ("export * from 'b'", 1, 1, "IMPORT"),
    ("export { b } from 'b'", 1, 1, "IMPORT"),
    ("export = 1", 1, 1, "This form of export is not supported; end the program with 'return' instead"),
    ("export\ndefault 1", 1, 1, "Write 'export default' with one space between the two words"),
    ("if (1) { export const a = 1 }", 1, 10, "'import' and 'export' may only appear at the top level"),
    ("const f = (): number => { export const a = 1 }", 1, 27, "'import' and 'export' may only appear at the top level"),
    # TypeScript.
    ("let x: = 3", 1, 8, "Unexpected token `=` where a type is expected"),
    ("const a: number = 1;\nlet b: = 2", 2, 8, "Unexpected token `=` where a type is expected"),
    ("\tlet é = '😀'; let x: = 3", 1, 23, "Unexpected token `=` where a type is expected"),
    ("let s: string = '😀'\nlet t: string = \u201ca\u201d", 2, 17, "Unexpected character '\u201c'"),
    ("const a: number = (", 1, 20, "Unexpected end of input"),
    ("const a: number = 1;\nif (a) {\nreturn a;\n", 3, 10, "Expected '}' before the end of the program"),
    ("const a: number = 1;\nreturn a;\n}\nfoo()", 3, 1, "Unexpected token '}'"),
    ("enum A { x }\nlet b: = 1", 2, 8, "Unexpected token `=` where a type is expected"),
    ("@dec const a = 1", 1, 6, "DECORATED"),
    ("class A { @dec constructor() {} }", 1, 16, "DECORATED"),
    ("class A { @dec static {} }", 1, 16, "DECORATED"),
    ("class A { f(@dec x) {} }", 1, 13, "DECORATED"),
    ("class A { @dec #f() {} }", 1, 11, "A private method or accessor cannot have decorators; leave out the #, or call the function by hand"),
    ("const x: number = 1; const e = <div>a</div>", 1, 32, "JSX"),
    ("return <br />", 1, 8, "JSX"),
    ("const App = ({ a }: Props) => <><p className='x'>{a}</p></>\nApp", 1, 31, "JSX"),
    ("```tsx\nconst e: any = (\n  <Tab.Bar on={() => 1}>text</Tab.Bar>\n)\n```", 3, 3, "JSX"),
    ("if (1 < 2) { let x: = 3 }", 1, 21, "Unexpected token `=` where a type is expected"),
    ("```python\nprint(1)\n```", 1, 1, "The text has a fenced block, but it is labelled 'python'; "
     "write JavaScript or TypeScript, labelled js or ts"),
    ("def main():\n    print('hi')\n\nmain()", 1, 5, "PYTHON"),
    ("x = 1\r\nif x == 1:\r\n    print(x)", 2, 4, "PYTHON"),
    ("async def main() -> None:  # now\n    pass", 1, 11, "PYTHON"),
    ("for x in range(3):\n    print(x)", 1, 5, "PYTHON"),
    ("import json\nprint(json.dumps([1]))", 1, 1, "PYTHON"),
    ("from json import dumps", 1, 6, "PYTHON"),
    ("class A:\n    pass", 1, 8, "PYTHON"),
    ("import fs from 'fs'", 1, 1, "IMPORT"),
    ("if x { y }", 1, 4, "Unexpected token 'x'"),
]  # fmt: skip

IMPORT = (
    "import is not available: a program is one text without modules. "
    "Call tools through servers.<name>.<tool>(...); for types write 'import type'"
)
ADVICE = {
    "DECORATED": "A decorator must be before a class, a method, a field or an accessor",
    "AWAIT": "await is only valid in async functions; write `async` before the function that it stands in",
    "JSX": "JSX is not supported; return data, or write markup as a string",
    "IMPORT": IMPORT,
    "PYTHON": "This is Python, and a program is JavaScript or TypeScript; run Python with run_program or `paddock exec`",
}


@pytest.mark.parametrize(("source", "expected"), VALUES)
def test_m12_m13_value_of_a_program(host, source, expected):
    settled = host.run(host.read(source), {"a": 7})
    assert settled.get("value", settled.get("error", "").split(":")[0]) == expected


@pytest.mark.parametrize(("source", "line", "column", "message"), REFUSALS)
def test_refusal_names_the_users_line_and_column(host, source, line, column, message):
    error = host.refusal(source)
    assert (error.name, error.line, error.column, error.message) == (
        "SyntaxError",
        line,
        column,
        ADVICE.get(message, message),
    )


@pytest.mark.parametrize(("source", "line", "column", "message"), REFUSALS)
def test_refusal_speaks_of_the_users_text_only(host, source, line, column, message):
    error = host.refusal(source, "typescript")
    told = f"{error.message}\n{error.excerpt}".lower()
    for inside in ("async function _", "swc", "strip", "<eof>", "<anon>", "\x1b", "sourcetype", "$retrn"):
        assert inside not in told


def test_m29_trailing_comment_on_the_last_line(host):
    assert host.value("return 1 // note") == 1
    assert host.value("const n: number = 2; n // note") == 2
    assert host.value("export default () => 3 // note") == 3
    assert host.value("async () => 4 // note") == 4


def test_m30_annotations_run_as_typescript_and_never_as_javascript(host):
    source = "const n: number = 1; return n"
    assert host.value(source) == 1
    assert host.value(source, language="typescript") == 1
    error = host.refusal(source, "javascript")
    assert (error.line, error.column, error.message) == (1, 8, "Unexpected token ':'")
    assert error.excerpt == "const n: number = 1; return n\n       ^"


def test_m12_null_undefined_and_no_return_differ(host):
    assert host.value("return null") is None
    assert host.value("return undefined") == U
    assert host.value("void 0") == U
    assert host.value("const a = 1") == U


def test_main_is_not_called_twice(host):
    settled = host.run(host.read("async function main() { seen.push('ran') }\nconst got = await main();"))
    assert settled == {"value": U, "seen": ["ran"]}


THROWN = [
    ("try { throw 1 } catch (e) { e + 1 }", 2),
    ("try { throw 1, 2 } catch (e) { e }", 2),
    ("try { throw (1, 2) } catch (e) { e }", 2),
    ("try { throw (() => { throw 3 })() } catch (e) { e }", 3),
    ("try { throw async (x) => x } catch (e) { await e(4) }", 4),
    ("try { throw { a: [1] } /* it */ } catch ({ a }) { a }", [1]),
    ("function* f() { throw yield 1 }\nconst g = f(); g.next()\ntry { g.next(5) } catch (e) { e }", 5),
    ("const $00000 = 1, $00001 = 2, input = 3\ntry { throw $00000 } catch (e) { e + $00001 + input }", 6),
    ("(x) => { try { throw x.a } catch (e) { return e } }", 7),
    ("enum A { B = 8 }\ntry { throw A.B as A } catch (e) { e }", 8),
]


@pytest.mark.parametrize(("source", "value"), THROWN)
def test_what_is_thrown_is_what_was_written(host, source, value):
    assert host.value(source, {"a": 7}) == value


UNCALLED = [
    ("function a() {}\nfunction b() {}", [("a", "a()"), ("b", "b()")]),
    ('const R = "a"; async function run() {}  async function other() {}', [("run", "run()"), ("other", "other()")]),
    ("class A { constructor() {} run() {} }", [("A", "new A().run()")]),
    ("class A { static x = 1; y = servers.a.b() }\nclass B extends A {}", [("A", "new A()"), ("B", "new B()")]),
    ("const t = { async run() {}, n: 1, go: () => 1, get x() { return 1 } }", [("t.run", "t.run()"), ("t.go", "t.go()")]),
    ("const f = () => 1, now = Date.now(), at = servers.github", [("f", "f()")]),
    ("const all = { f }; function f() {}", [("f", "f()")]),
    ("export async function run() {}\nexport function other() {}", [("run", "run()"), ("other", "other()")]),
    ("function* each() { yield 1 }", [("each", "each()")]),
    (";".join(f"function f{n}() {{}}" for n in range(9)), [(f"f{n}", f"f{n}()") for n in range(5)]),
    ("function a() {}\nfunction b() {}\nconst c = a()", []),
    ("function a() {}\nfunction b() {}\nconst c = [1].map(a)", []),
    ("function a() {}\nclass B { static { a() } }", []),
    ("function a() {}\nclass B { static x = a(); [servers.a.b()]() {} }", []),
    ("const r = await servers.github.list()\nfunction format() {}", []),
    ("const p = servers.github.list()\nfunction format() {}", []),
    ("const p = await import_\nfunction format() {}\nconst import_ = 1", []),
    ("function main() {}\nfunction other() {}", []),
    ("function only() {}", []),
    ("const a = 1", []),
    ("const a = { b: 1 }", []),
    ("function a() {}\nfunction b() {}\n1", []),
    ("", []),
]  # fmt: skip


@pytest.mark.parametrize(("source", "uncalled"), UNCALLED)
def test_what_is_only_declared_is_named(host, source, uncalled):
    program = host.read(source)
    assert [(each.name, each.call) for each in program.uncalled] == uncalled


def test_a_declaration_as_deep_as_it_likes_is_looked_through(host):
    deep = "function f() {}\nfunction g() {}\nconst a = " + "[" * 500 + "servers.a.b()" + "]" * 500
    assert host.read(deep).uncalled == ()


def test_a_failing_call_in_a_last_try_is_not_awaited_inside_of_it(host):
    source = "try { Promise.reject(new Error('late')) } catch { 'caught' }"
    assert host.run(host.read(source))["error"] == "Error: late"


def test_code_is_the_text_between_head_and_tail(host):
    program = host.read("1 + 1 // note", "javascript")
    assert program.code == (
        '"use strict";__paddock(async function(input){return 1 + 1 // note\n})\n//# sourceURL=paddock:program'
    )
    assert program.positions.model_dump() == {"prefix": 45, "insertions": ((0, 0, 7),), "map": None}
    assert program.language == "javascript"


def test_javascript_never_loads_typescript(host):
    before = host.typescript_loads
    for source in ("return 1", "```js\n1\n```", "import type { A } from 'a'\n1", "export default () => 1"):
        assert host.read(source).language == "javascript"
    host.refusal("let x = ;", "javascript")
    assert host.typescript_loads == before


def test_plain_javascript_stays_javascript_when_typescript_is_asked_for(host):
    assert host.read("return 1", "typescript").language == "javascript"
    assert host.read("return 1 as number", "typescript").language == "typescript"


def test_intake_asks_for_typescript_until_it_is_loaded():
    with MiniRacer() as reader:
        for script in parse_worker.SCRIPTS:
            reader.eval((SCRIPTS / script).read_text("utf-8"))
        request = json.dumps(parse.write_request("let x: number = 1", "auto").decode())
        assert reader.eval(f"intake({request})") == '{"ok":false,"needs":"typescript"}'


def test_the_later_of_two_refusals_is_told(host):
    # JavaScript stops at the annotation, TypeScript understands more and stops at the real mistake.
    error = host.refusal("const a: number = 1\nconst b = ;")
    assert (error.line, error.column) == (2, 11)
    # TypeScript has nothing to add to a mistake in JavaScript.
    error = host.refusal("const b = ;\nconst a: number = 1")
    assert (error.line, error.column, error.message) == (1, 11, "Unexpected token ';'")


def test_answer_refuses_a_response_that_intake_does_not_make():
    with pytest.raises(ValueError, match="neither a program nor an error with a position"):
        parse.read_response(b'{"ok":false}', "1")
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        parse.read_response(b'{"ok":true,"surprise":1}', "1")


def test_typescript_can_be_loaded_from_base64(host):
    wasm = base64.b64encode((SCRIPTS / parse_worker.TYPESCRIPT_WASM).read_bytes()).decode()
    host.read("let a: number")
    host.reader.eval(f"loadTypeScript('{wasm}')")
    assert isinstance(host.read("let a: number = 1"), ParsedProgram)
