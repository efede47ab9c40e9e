import pandas as pd, numpy as np
long = pd.DataFrame({"n": range(200), "sq": np.arange(200) ** 2})
long
# %%
print(long)
# %%
wide = pd.DataFrame(np.arange(90).reshape(3, 30), columns=[f"column_{i}" for i in range(30)])
wide
# %%
print(wide)
# %%
with pd.option_context("display.max_columns", None, "display.width", 120):
    print(wide)
# %%
pd.DataFrame({"text": ["x" * 80, "short"], "list": [[1, 2], {"a": 1}]})
# %%
pd.DataFrame()
# %%
pd.DataFrame(index=["a", "b"], columns=pd.MultiIndex.from_product([["x", "y"], [1, 2]]))
# %%
np.arange(2000)
# %%
np.random.default_rng(0).normal(size=(6, 8))
