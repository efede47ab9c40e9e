import math, functools, operator, os, datetime, decimal, fractions, uuid
len, print, math.sqrt, str.upper, "a".upper, [].append
# %%
int, str, dict, ValueError, datetime.date, type(None), Exception
# %%
lambda x, y=2: x
# %%
functools.partial(int, base=2)("101"), operator.itemgetter(1), functools.reduce
# %%
ValueError("x"), KeyError("k"), OSError(2, "No such file"), Exception()
# %%
class AppError(Exception): pass
AppError("boom", 3)
# %%
math, os.path.join("a", "b"), range(5), range(0, 10, 3), slice(1, 2), NotImplemented, Ellipsis
# %%
decimal.Decimal("1.10"), fractions.Fraction(3, 6), datetime.datetime(2024, 1, 2, 3), datetime.timedelta(1), uuid.UUID(int=5)
# %%
{1: int, "f": math.floor, (1, 2): print}
# %%
1e100, 0.1 + 0.2, 10**30, 1_000_000.0, float("nan"), -0.0, 3+4j, True, b"bytes"
