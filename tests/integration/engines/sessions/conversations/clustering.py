import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
X, truth = make_blobs(n_samples=150, centers=3, cluster_std=0.7, random_state=3)
X[:5]
# %%
km = KMeans(n_clusters=3, n_init=5, random_state=0)
labels = km.fit_predict(X)
np.unique(labels, return_counts=True)
# %%
pd.crosstab(truth, labels, rownames=["truth"], colnames=["cluster"])
# %%
import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(5, 4))
ax.scatter(X[:, 0], X[:, 1], c=labels, s=12)
ax.scatter(*km.cluster_centers_.T, marker="x", color="red")
ax.set_title("Clusters")
fig
# %%
inertia = {k: round(KMeans(k, n_init=2, random_state=0).fit(X).inertia_, 1) for k in range(1, 6)}
inertia
