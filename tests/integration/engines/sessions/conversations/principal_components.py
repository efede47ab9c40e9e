import numpy as np, matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale
wine = load_wine()
wine.data.shape, wine.feature_names[:4], wine.target_names
# %%
pca = PCA(2).fit(scale(wine.data))
pca.explained_variance_ratio_.round(4)
# %%
points = pca.transform(scale(wine.data))
for k, name in enumerate(wine.target_names):
    plt.scatter(*points[wine.target == k].T, label=name, s=9)
plt.legend()
# %%
plt.bar(range(13), np.abs(pca.components_[0]));
# %%
[(name, round(float(abs(c)), 3)) for name, c in zip(wine.feature_names, pca.components_[0])]
