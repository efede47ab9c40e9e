import numpy as np
import matplotlib.pyplot as plt

rng = np.random.default_rng(0)
data = rng.normal(size=200)
plt.hist(data, bins=8)
# %%
fig, axes = plt.subplots(2, 2, figsize=(8, 6))
axes[0, 0].plot(data.cumsum())
axes[0, 1].scatter(data[:-1], data[1:], s=5)
axes[1, 0].boxplot([data, data * 2])
axes[1, 1].bar(["a", "b"], [1, 2])
fig.suptitle("Four views")
fig.tight_layout()
# %%
print("before")
plt.plot([1, 2, 3])
plt.title("first")
plt.show()
print("between")
plt.plot([3, 2, 1], "r--")
plt.title("second")
plt.show()
print("after")
# %%
for n in range(3):
    plt.figure(figsize=(3, 2))
    plt.plot(np.sin(np.linspace(0, n + 1, 50)))
# %%
fig, ax = plt.subplots()
ax.imshow(np.arange(12).reshape(3, 4), cmap="viridis")
fig.savefig("image.png", dpi=50)
plt.close(fig)
# %%
fig
# %%
plt.plot([1, 2], [3, 4]);
# %%
plt.plot([1, 2])
raise ValueError("half drawn")
