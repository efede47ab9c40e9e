"""What programs cost once they run: the same text in a guest and in plain node, timed by the program itself."""

from statistics import median

from benchmarks import peers
from benchmarks.measure import Line, Scale, at_most, interleaved, ratio
from benchmarks.subject import paddock

TITLE = "Computing, against node"

_FIB = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
const started = Date.now();
for (let i = 0; i < 5; i++) fib(32);
return (Date.now() - started) / 5;
"""
_LOOP = """
const started = Date.now();
let sum = 0;
for (let round = 0; round < 5; round++) for (let i = 0; i < 5_000_000; i++) sum = (sum + i * 7) % 1000003;
return sum < 0 ? sum : (Date.now() - started) / 5;
"""
_JSON = """
const started = Date.now();
let length = 0;
for (let round = 0; round < 10; round++) {
  const rows = [];
  for (let i = 0; i < 5000; i++) rows.push({ id: i, name: `item ${i}`, tags: ["a", "b"], at: { x: i / 3, y: -i } });
  const text = JSON.stringify(rows);
  const byTag = {};
  for (const row of JSON.parse(text)) (byTag[row.tags[row.id % 2]] ??= []).push({ ...row, seen: true });
  length += text.length + byTag.a.length + byTag.b.map((row) => row.name.toUpperCase()).join().length;
}
return length < 0 ? length : (Date.now() - started) / 10;
"""
_SORT = """
let seed = 42;
const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
const rows = Array.from({ length: 100_000 }, (_, i) => ({ id: i, key: random(), name: `n${Math.floor(random() * 1e6)}` }));
const started = Date.now();
const numbers = rows.map((row) => row.key).sort((a, b) => a - b);
const byName = [...rows].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
return numbers.length + byName.length < 0 ? 0 : Date.now() - started;
"""
_PROGRAMS = {"fib(32)": _FIB, "a loop of 5 million": _LOOP, "objects and JSON": _JSON, "sorting": _SORT}
_TARGETS = {
    ("fib(32)", "jit"): at_most(1.2),
    ("a loop of 5 million", "jit"): at_most(1.2),
    ("objects and JSON", "jitless"): at_most(2),
    ("sorting", "jitless"): at_most(2),
}


def measure(scale: Scale) -> list[Line]:
    lines: list[Line] = []
    with paddock(jit=True) as subject:
        for name, program in _PROGRAMS.items():
            contenders = {
                "node": lambda p=program: float(str(peers.in_node(p, subject.workspace))),
                "jit": lambda p=program: float(subject.run(subject.value(p, jit=True))),
                "jitless": lambda p=program: float(subject.run(subject.value(p))),
            }
            figures = interleaved(contenders, scale.of(7, 1))
            spent = {who: median(values) for who, values in figures.items()}
            lines += [
                Line(
                    f"{name}, {'with the JIT grant' if who == 'jit' else 'default (jitless)'}",
                    ratio(figures[who], figures["node"]),
                    "x",
                    _TARGETS.get((name, who)),
                    note=f"{spent[who]:.1f} ms, node {spent['node']:.1f} ms",
                )
                for who in ("jit", "jitless")
            ]
    return lines
