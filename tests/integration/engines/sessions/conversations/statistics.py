import statistics as st
from math import isclose, sqrt
data = [2.5, 3.25, 5.5, 11.5, 2.5, 7]
st.mean(data), st.median(data), st.mode(data), round(st.stdev(data), 4)
# %%
st.mean([])
# %%
from scipy import stats
import numpy as np
a = np.random.default_rng(1).normal(5, 1, 30); b = a + 0.4
t = stats.ttest_ind(a, b)
print(f"t = {t.statistic:.3f}, p = {t.pvalue:.3f}")
# %%
stats.describe(a.round(1))
# %%
stats.linregress([1, 2, 3, 4], [2, 4, 6, 8.5])
# %%
st.quantiles(data, n=4), st.NormalDist(0, 1).cdf(1.96)
