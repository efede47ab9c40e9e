import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score, mean_squared_error
from sklearn.model_selection import train_test_split
rng = np.random.default_rng(1)
X = rng.uniform(0, 10, (120, 2))
y = 3 * X[:, 0] - 2 * X[:, 1] + 5 + rng.normal(0, 0.5, 120)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
X_train.shape, X_test.shape
# %%
model = LinearRegression().fit(X_train, y_train)
print("coefficients:", model.coef_.round(3), "intercept:", round(model.intercept_, 3))
# %%
pred = model.predict(X_test)
print(f"R2 = {r2_score(y_test, pred):.4f}, MSE = {mean_squared_error(y_test, pred):.4f}")
# %%
model.predict([[1.0]])
# %%
import matplotlib.pyplot as plt
plt.scatter(y_test, pred, alpha=0.6)
plt.plot([y.min(), y.max()], [y.min(), y.max()], "k--")
plt.xlabel("actual"); plt.ylabel("predicted")
plt.grid(True)
plt.show()
# %%
dict(zip(["x0", "x1"], model.coef_.round(2).tolist()))
