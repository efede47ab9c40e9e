import numpy as np
a = np.arange(12).reshape(3, 4)
a
# %%
a.T @ a, a.sum(axis=0), a[a % 2 == 0]
# %%
a @ np.ones(3)
# %%
np.linalg.inv(np.array([[2.0, 1.0], [1.0, 3.0]])), np.linalg.det([[1, 2], [3, 4]]).round(3)
# %%
np.linalg.inv(np.zeros((2, 2)))
# %%
np.set_printoptions(precision=3, suppress=True)
np.linspace(0, 1, 7), np.array([1e-10, 123456.789])
# %%
np.save("a.npy", a); np.load("a.npy").dtype, a.shape, np.float64(0.1), np.int64(3)
# %%
{"mean": a.mean(), "std": a.std(), "flat": a.ravel()}
# %%
np.array(["a", "bcd"]), np.array([{"x": 1}, None], dtype=object), np.array(5), np.ma.array([1, 2], mask=[0, 1])
