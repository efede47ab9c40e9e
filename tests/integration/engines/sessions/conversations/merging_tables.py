import pandas as pd
people = pd.DataFrame({"id": [1, 2, 3], "name": ["Ann", "Bob", "Cid"], "team": ["x", "y", "x"]})
scores = pd.DataFrame({"id": [1, 1, 2, 4], "score": [9, 7, 8, 5]})
people.merge(scores, on="id", how="outer", indicator=True)
# %%
people.merge(scores, on="name")
# %%
joined = people.set_index("id").join(scores.set_index("id"), how="inner")
joined
# %%
joined.groupby("team").score.transform("mean").tolist()
# %%
pd.concat([people, people.assign(name=people.name.str.upper())], ignore_index=True).drop_duplicates("name")
# %%
people.query("team == 'x'").to_json("x.json", orient="records")
pd.read_json("x.json").to_dict("records")
# %%
people.to_dict(), people.dtypes, people.columns
