import pandas as pd, numpy as np
idx = pd.date_range("2023-01-01", periods=90, freq="D")
ts = pd.Series(np.sin(np.arange(90) / 7) * 10 + np.arange(90), index=idx, name="load")
ts
# %%
ts.resample("ME").agg(["mean", "min", "max"])
# %%
ts.rolling(7).mean().dropna().head()
# %%
ts.diff().idxmax(), ts.autocorr(lag=1).round(4), ts["2023-02"].sum().round(2)
# %%
import matplotlib.pyplot as plt
ax = ts.plot(figsize=(7, 3), title="Load")
ts.rolling(14).mean().plot(ax=ax, style="--", label="two weeks")
ax.legend()
# %%
ts.shift(freq="1h").index[:3]
# %%
pd.Timestamp("2023-03-01") - pd.Timedelta(days=1), pd.to_datetime("13/45/2023")
