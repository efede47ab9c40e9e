def fib():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b
g = fib()
[next(g) for _ in range(10)]
# %%
next(g)
# %%
from itertools import islice, groupby, chain, product, accumulate
list(islice(g, 5)), list(accumulate([1, 2, 3, 4]))
# %%
words = ["apple", "avocado", "banana", "blueberry", "cherry"]
for letter, group in groupby(words, key=lambda w: w[0]):
    print(letter, *group)
# %%
squares = (n * n for n in range(4))
squares
# %%
sum(squares), sum(squares)
# %%
def once():
    yield 1
it = once(); next(it)
next(it)
# %%
list(product("ab", [1, 2])), dict(enumerate("xyz"))
