items = {"a": 1}
print("before")
items["b"]
print("never")
# %%
items["c"] = 3
len(items)
# %%
def outer(n):
    return inner(n)
def inner(n):
    return 10 / n
outer(0)
# %%
try:
    outer(0)
except ZeroDivisionError as e:
    raise RuntimeError("wrapped") from e
# %%
int("12a")
# %%
for i in range(3):
    print(i)
    assert i < 1, f"too large: {i}"
# %%
i, items
# %%
undefined_name
# %%
"abc" + 1
