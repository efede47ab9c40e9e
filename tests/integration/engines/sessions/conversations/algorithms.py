from functools import lru_cache
import heapq, bisect
@lru_cache(maxsize=None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(90), fib.cache_info()
# %%
graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2, "d": 6}, "c": {"d": 3}, "d": {}}
def shortest(start):
    best, heap = {start: 0}, [(0, start)]
    while heap:
        cost, node = heapq.heappop(heap)
        for other, weight in graph[node].items():
            if cost + weight < best.get(other, float("inf")):
                best[other] = cost + weight
                heapq.heappush(heap, (cost + weight, other))
    return best
shortest("a")
# %%
shortest("z")
# %%
def forever(n): return forever(n + 1)
forever(0)
# %%
sieve = [n for n in range(2, 200) if all(n % k for k in range(2, int(n ** 0.5) + 1))]
sieve
# %%
bisect.bisect(sieve, 100), sum(sieve)
