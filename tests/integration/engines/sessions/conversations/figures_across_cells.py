import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(3, 2))
ax.plot([1, 2, 3])
plt.close()
ax
# %%
ax.set_title("later")
fig
# %%
display(fig)
print("again")
display(fig, "and text")
# %%
plt.figure(); plt.show(); plt.show()
# %%
fig2 = plt.figure(figsize=(2, 1))
fig2.text(0.1, 0.5, "only text")
plt.bar(["x", "y"], [1, 3], color=["C1", "C2"])
1 / 0
# %%
plt.plot([0, 1])
plt.savefig("line.png")
plt.clf()
# %%
from io import BytesIO
buf = BytesIO()
fig.savefig(buf, format="png")
len(buf.getvalue()) > 1000, buf.getvalue()[:4]
