from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
X, y = make_classification(n_samples=100, n_features=4, random_state=0)
pipe = make_pipeline(StandardScaler(), LogisticRegression())
print(pipe)
# %%
pipe.predict(X[:2])
# %%
pipe.fit(X, y)
round(pipe.score(X, y), 3), pipe.predict_proba(X[:2]).round(3)
# %%
LogisticRegression(max_iter=1).fit(X * 100, y).n_iter_
# %%
pipe.named_steps["logisticregression"].coef_.round(2)
# %%
LogisticRegression(C="no").fit(X, y)
