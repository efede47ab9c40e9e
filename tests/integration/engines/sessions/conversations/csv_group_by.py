import pandas as pd
rows = """date,region,product,units,price
2024-01-03,North,Widget,10,2.5
2024-01-04,South,Widget,4,2.5
2024-01-04,North,Gadget,7,11.0
2024-01-09,East,Gadget,,11.0
2024-02-01,South,Gizmo,12,0.99
2024-02-11,East,Widget,30,2.25
"""
with open("sales.csv", "w") as f:
    f.write(rows)
df = pd.read_csv("sales.csv", parse_dates=["date"])
df.head()
# %%
df.info()
# %%
df["revenue"] = df["units"] * df["price"]
df.groupby("region")["revenue"].agg(["sum", "mean", "count"])
# %%
df.groupby("category")["revenue"].sum()
# %%
df.isna().sum()
# %%
df["units"] = df["units"].fillna(df["units"].median())
print(df.to_string())
df.groupby(["region", "product"], as_index=False).agg(total=("units", "sum")).to_csv("by_region.csv", index=False)
# %%
open("by_region.csv").read()
