import matplotlib
import matplotlib.pyplot as plt
import numpy as np
x = np.linspace(0, 2 * np.pi, 60)
plt.style.use("ggplot")
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
left.fill_between(x, np.sin(x), alpha=0.4, label=r"$\sin x$")
right.step(x, np.cos(x), label=r"$\cos x$")
for ax in (left, right):
    ax.legend(loc="lower left")
# %%
plt.style.use("default")
fig = plt.figure(figsize=(4, 4), facecolor="lightyellow")
ax = fig.add_subplot(projection="polar")
ax.plot(x, 1 + np.cos(x))
ax.set_title("Polar", fontsize=9)
# %%
fig.savefig("polar.png", dpi=40, bbox_inches="tight")
import os
os.path.exists("polar.png"), type(fig)
# %%
with plt.rc_context({"lines.linewidth": 4}):
    plt.plot(x, x)
    plt.show()
plt.pie([3, 4, 5], labels=["a", "b", "c"], autopct="%d%%")
plt.show()
# %%
plt.subplot(3, 1, 4)
# %%
ax = plt.axes(projection="3d")
ax.scatter([1, 2], [3, 4], [5, 6])
print(plt.get_fignums())
# %%
plt.get_fignums()
