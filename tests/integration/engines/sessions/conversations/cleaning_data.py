import pandas as pd, numpy as np, io
raw = io.StringIO("""id;amount;when;note
1;1.234,50;01.02.2024; ok
2;n/a;03.02.2024;
3;99,99;31.12.2023;late  
3;99,99;31.12.2023;late  
""")
df = pd.read_csv(raw, sep=";", decimal=",", thousands=".", na_values=["n/a"])
df
# %%
df.duplicated().sum(), df.isna().mean().to_dict()
# %%
df = df.drop_duplicates()
df["when"] = pd.to_datetime(df["when"], format="%d.%m.%Y")
df["note"] = df["note"].str.strip().fillna("")
df.dtypes
# %%
df["amount"].astype(int)
# %%
df["size"] = pd.cut(df["amount"], [0, 100, 10000], labels=["small", "large"])
df[["id", "amount", "size"]]
# %%
df["size"].value_counts(dropna=False)
# %%
df.set_index("when").sort_index().to_csv("clean.csv")
print(open("clean.csv").read())
