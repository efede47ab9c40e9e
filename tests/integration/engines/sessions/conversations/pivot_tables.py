import pandas as pd, numpy as np
rng = np.random.default_rng(7)
df = pd.DataFrame({
    "month": np.tile(["Jan", "Feb", "Mar", "Apr"], 6),
    "shop": np.repeat(["A", "B", "C"], 8),
    "sales": rng.integers(10, 99, 24),
})
df.pivot_table(index="shop", columns="month", values="sales", aggfunc="sum", margins=True)
# %%
pd.crosstab(df["shop"], df["sales"] > 50)
# %%
wide = df.groupby(["shop", "month"])["sales"].mean().unstack()
display(wide)
display(wide.T.describe().round(2))
wide.shape, list(wide.columns)
# %%
melted = wide.reset_index().melt(id_vars="shop", value_name="mean")
melted.sort_values(["shop", "mean"], ascending=[True, False]).groupby("shop").head(1)
# %%
wide.loc["D"]
# %%
{shop: group["sales"].tolist() for shop, group in df.groupby("shop")}
