{f"key_{n}": {"value": n, "squares": [k * k for k in range(n)]} for n in range(6)}
# %%
list(range(40))
# %%
["a fairly long string number %d" % n for n in range(5)]
# %%
set("the quick brown fox jumps over the lazy dog and runs through the forest again"), frozenset({3, 1, 2}), set(), frozenset()
# %%
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple, ChainMap
Counter("mississippi and other words that are long enough to need more than one line")
# %%
d = defaultdict(list)
for n in range(12):
    d[n % 3].append(n * 1000000)
d
# %%
Point = namedtuple("Point", "x y")
deque([1, 2], maxlen=3), OrderedDict(a=1), Point(1, 2), ChainMap({"a": 1}), deque(range(30))
# %%
nested = [[(i, j, {"sum": i + j}) for j in range(4)] for i in range(4)]
nested
# %%
loop = [1]; loop.append(loop); ring = {"self": None}; ring["self"] = ring
loop, ring
# %%
import types
types.SimpleNamespace(a=1, b="x" * 70), types.MappingProxyType({"k": 1})
# %%
list(range(1100))[-3:], (1,), (), [[]], {}
# %%
OrderedDict((f"name {n}", "value" * n) for n in range(6))
