import numpy as np, pandas as pd, matplotlib.pyplot as plt
rng = np.random.default_rng(5)
df = pd.DataFrame(rng.normal(size=(50, 4)), columns=list("abcd"))
df["e"] = df["a"] * 2 + df["b"]
corr = df.corr()
corr.round(3)
# %%
fig, ax = plt.subplots(figsize=(4, 4))
im = ax.imshow(corr, cmap="coolwarm", vmin=-1, vmax=1)
ax.set_xticks(range(5), corr.columns)
ax.set_yticks(range(5), corr.columns)
fig.colorbar(im)
plt.show()
# %%
corr.unstack().loc[lambda s: (s < 1) & (s.abs() > 0.4)].sort_values()
# %%
df.plot.scatter("a", "e")
# %%
pd.plotting.scatter_matrix(df[["a", "b"]], figsize=(4, 4))
# %%
df.describe()
