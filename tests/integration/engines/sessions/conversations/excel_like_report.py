import pandas as pd, numpy as np
pd.set_option("display.float_format", "{:,.2f}".format)
df = pd.DataFrame({"item": ["pen", "book", "bag"], "qty": [100, 20, 5], "cost": [1.5, 12, 45.99]})
df["total"] = df.eval("qty * cost")
df
# %%
df.loc[len(df)] = ["TOTAL", df.qty.sum(), np.nan, df.total.sum()]
df
# %%
print(df.to_string(index=False, na_rep="-"))
# %%
df.to_markdown()
# %%
df.style
# %%
df.apply(lambda row: row["qty"] * row["missing"], axis=1)
# %%
pd.reset_option("display.float_format")
df.T
# %%
df.at[0, "item"], df.iloc[-1, -1], df["qty"].to_numpy()
