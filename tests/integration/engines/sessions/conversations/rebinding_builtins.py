list = [1, 2]
list
# %%
list("abc")
# %%
del list
list("abc")
# %%
print = None
# %%
del print
print("back")
# %%
_ = 5
for _ in range(3): pass
_
# %%
"value"
# %%
__name__, "df" in globals()
# %%
import pickle
class Keep:
    def __init__(self, v): self.v = v
pickle.loads(pickle.dumps(Keep(3))).v
# %%
x: int = 4
__annotations__
