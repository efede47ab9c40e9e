import pandas as pd, numpy as np
import matplotlib.pyplot as plt
%matplotlib inline
df = pd.DataFrame({"g": list("aabbcc"), "v": [1, 3, 2, 5, 4, 4], "w": [2, 2, 1, 7, 3, 9]})
df.groupby("g").v.mean().plot(kind="bar", rot=0)
# %%
df.plot(subplots=True, figsize=(5, 4))
# %%
df.boxplot(column="v", by="g")
# %%
df.hist(bins=4);
# %%
df["nope"].plot()
# %%
df.plot(kind="waterfall")
# %%
axes = df.plot.area(x="g", stacked=True)
axes.get_figure().savefig("area.png", dpi=30)
plt.show()
print("saved")
