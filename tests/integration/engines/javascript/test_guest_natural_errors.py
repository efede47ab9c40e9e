"""Errors as models make them, each with the hint that it must have, or with none: a wrong hint misleads."""

import pytest

NONE = ""
RESULT = (
    "a tool's result is its data, or its text: data needs no JSON.parse, and there is no `content[0].text`; "
    "servers.<name>.callRaw(tool, args) gives the whole message"
)
DATA = "this is data already, as the result of a tool is: leave JSON.parse out"
TOOLS = "tools are in `servers`: await servers.<name>.<tool>(...)"
SERVERS = "tools are in `servers`, as await servers.<name>.<tool>(...); those there are: odd, even"
ECHO = "tools are in `servers`: await servers.odd.echo(...)"
FILES = "there are no files; call a tool: await servers.<name>.<tool>(...)"
LOG = "use console.log"


def is_promise(name: str, call: str = "servers.odd.echo") -> str:
    return f"`{name}` is a promise: put `await` before the call, `await {call}(...)`"


CALL = "servers.odd.echo({ text: 'x' })"
AWAIT_CALL = "a call returns a promise: put `await` before it, `await servers.odd.echo(...)`"
NATURAL = {
    # A promise that is taken for its value.
    "a member of a member of a promise": (f"const r = {CALL}; return r.items.length", is_promise("r")),
    "a loop over a member": (f"const r = {CALL}\nfor (const i of r.items) console.log(i)", is_promise("r")),
    "a loop over a promise": (f"const r = {CALL}\nfor (const i of r) console.log(i)", is_promise("r")),
    "a method of its value": (f"let r\nr = {CALL}\nreturn r.map(String)", is_promise("r")),
    "keys of a member": (f"const r = {CALL}; return Object.keys(r.items)", is_promise("r")),
    "taken apart": (
        f"const {{ items }} = {CALL}; return items.length",
        "`items` was read from a promise: put `await` before the call, `await servers.odd.echo(...)`",
    ),
    "await of a member": (
        f"return (await {CALL}.items).length",
        "the call returns a promise; await it first: `(await servers.odd.echo(...)).items`",
    ),
    "several at once": (f"const all = Promise.all([{CALL}])\nreturn all[0].text", is_promise("all", "Promise.all")),
    "a function of the program's own": (
        "async function load() { return { a: [] } }\nconst r = load()\nreturn r.a.length",
        is_promise("r", "load"),
    ),
    "a list of promises": (
        "const rs = [1, 2].map(async (n) => ({ n: [n] }))\nreturn rs[0].n.length",
        "`rs` holds promises: `await Promise.all(rs)` returns their values",
    ),
    "a list of calls, in a callback": (
        f"const rs = [1, 2].map((n) => {CALL})\nreturn rs.map((r) => r.items.length)",
        "`rs` holds promises: `await Promise.all(rs)` returns their values",
    ),
    "a list of calls, in a loop": (
        f"const rs = [1, 2].map((n) => {CALL})\nfor (const r of rs) console.log(r.items.length)",
        "`rs` holds promises: `await Promise.all(rs)` returns their values",
    ),
    "a loop over a call": (f"for (const i of {CALL}) console.log(i)", AWAIT_CALL),
    "all members of a call": (f"return [...{CALL}]", AWAIT_CALL),
    "a call taken apart": (f"const [first] = {CALL}; return first", AWAIT_CALL),
    "a map of a call": (f"return new Map({CALL})", AWAIT_CALL),
    "a map of a promise": (f"const r = {CALL}; return new Map(r)", is_promise("r")),
    "a program in another language": (
        "const r = paddock.exec('python', 'print(1)'); return r.stdout.trim()",
        is_promise("r", "paddock.exec"),
    ),
    "a promise as JSON": (f"const r = {CALL}; return JSON.parse(r)", "a call returns a promise: put `await` before it"),
    # No promise, although its name is also that of one.
    "awaited later": (f"let r = {CALL}; r = await r; return r.items.length", NONE),
    "a list that is awaited": (
        f"const rs = await Promise.all([1].map(async () => {CALL})); return rs.items.length",
        NONE,
    ),
    "members of a list that is awaited": (
        f"const rs = await Promise.all([1].map(() => {CALL})); return rs.map((r) => r.items.length)",
        NONE,
    ),
    "a loop that awaits": (
        f"const rs = [1].map(() => {CALL})\nfor await (const r of rs) console.log(r.items.length)",
        NONE,
    ),
    "members of data": ("const rs = [{}]; return rs.map((r) => r.items.length)", NONE),
    "a loop over no list": ("function load() { return 1 }\nfor (const i of load()) console.log(i)", NONE),
    "an object taken apart": ("const [first] = {}; return first", NONE),
    "awaited": (f"const r = await {CALL}; return r.items.length", "servers.odd.echo returned a text, without `items`"),
    "a parameter of the same name": (f"const r = {CALL}; await r\nreturn [{{}}].map((r) => r.items.length)", NONE),
    "what follows the promise": (f"return await {CALL}.then((v) => v.items.length)", NONE),
    "a function that is not async": ("function load() { return {} }\nconst r = load(); return r.a.length", NONE),
    # A result that is taken for a message of the protocol.
    "the text of a message": (f"const r = await {CALL}; return r.content[0].text", RESULT),
    "the texts of a message": (f"const r = await {CALL}\nreturn r.content.map((c) => c.text)", RESULT),
    "in a function": (f"const text = (m) => m.content?.at(0) ?? m.content[0].text\nreturn text(await {CALL})", RESULT),
    "JSON of no message": (f"const r = await {CALL}; return JSON.parse(r.content?.[0]?.text)", RESULT),
    "JSON of data": ("const rows = [{ a: 1 }]; return JSON.parse(rows[0])", DATA),
    # Members of that name that are none of a message.
    "a misspelt method": ("const posts = [{ content: 'a b' }]; return posts.map(p => p.content.splitt(' '))", "did you mean `split`?"),
    "a post without content": ("const posts = [{}]; return posts.map((p) => p.content.split(' '))", NONE),
    "an empty page": ("const page = { content: [] }; return page.content[0].text", NONE),
    "the raw message": ("const r = await servers.odd.callRaw('nothing', {}).catch(() => ({})); return r.content.length", NONE),
    "no input": ("return JSON.parse(paddock.vars.ROWS)", NONE),
    "nothing there": ("return JSON.parse(undefined)", NONE),
    # Methods and names of other languages.
    "contains": ("return [1, 2].contains(2)", "the method is called `includes` in JavaScript"),
    "append": ("const a = []; a.append(1); return a", "the method is called `push` in JavaScript"),
    "foreach": ("[1].foreach(console.log)", "did you mean `forEach`?"),
    "print": ("print('x')", LOG),
    "path of Node": ("return path.join('a', 'b')", FILES),
    "os of Node": ("return os.platform()", "there is no Node.js; a program's inputs are in `input` and `paddock.vars`"),
    # Names that the program has forgotten to declare.
    "path": ("return path.length", NONE),
    "print without a call": ("return [1].map(print)", NONE),
    "window": ("const sums = []; sums.push(window); return sums", NONE),
    "lt": ("return 1 < lt", NONE),
    "args": ("return args.name", "a program's inputs are in `input` and `paddock.vars`"),
    "a method of its own": ("const store = { load() {} }; return store.fetchAll()", NONE),
    # Tools under names of other worlds.
    "a bare server": (f"return await {CALL.removeprefix('servers.')}", ECHO),
    "a bare server in brackets": ("return await odd['echo']({ text: 'x' })", ECHO),
    "one name for both": ("return await mcp__odd__echo({ text: 'x' })", ECHO),
    "an underscore between both": ("const r = await odd_echo({ text: 'x' })\nreturn r", ECHO),
    "below tools": (f"return await tools.{CALL.removeprefix('servers.')}", ECHO),
    "below mcp": (f"return await mcp.{CALL.removeprefix('servers.')}", ECHO),
    "below the SDK": (f"return await paddock.{CALL.removeprefix('servers.')}", ECHO),
    "a server that is none": ("return await servers.mcp__odd__echo({ text: 'x' })", ECHO),
    "a tool that is none": ("return await odd.no_such_tool({ text: 'x' })", SERVERS),
    "a server that nobody has": ("return await github.search_issues({ query: 'x' })", SERVERS),
    "tools of nobody": ("return await tools.github.search({})", TOOLS),
    "a call of all servers": ("return await servers.call('odd', 'echo', {})", TOOLS),
}  # fmt: skip


@pytest.mark.parametrize(("source", "hint"), NATURAL.values(), ids=NATURAL.keys())
def test_a_natural_error_has_its_hint_or_none(guest, source, hint):
    outcome = guest.run(source)
    assert (outcome.status, outcome.error.hint) == ("failed", hint)


def test_scripts_of_the_seeds_are_told_nothing_of_it(guest):
    for source in ("return await odd.echo({})", f"const r = {CALL}; return r.items.length"):
        assert guest.run(source, raw_results=True).error.hint == ""


@pytest.mark.parametrize(
    "source",
    [
        "const r = " + "(" * 3000 + "servers.odd.echo({})" + ")" * 3000 + ".items.length; return r",
        "const " + "{ r: " * 500 + "r" + " }" * 500 + f" = {CALL}; return r.x",
        "const a = [" + "r," * 20_000 + "]; return r.items.length; let r = {}",
        "const r = {}; /* " + "{r " * 12_000 + " */ return r.items.length",
        "return " + "r.a".join("([{" * 4000) + ".b",
    ],
    ids=["brackets", "patterns", "names", "braces", "no end"],
)
def test_a_hostile_text_takes_no_time_to_be_read_for_a_hint(guest, source):
    outcome = guest.run(source)
    assert outcome.status == "failed"
    assert guest.value("return 1") == 1
