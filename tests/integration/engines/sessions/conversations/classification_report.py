import warnings
warnings.filterwarnings("ignore")
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import classification_report, confusion_matrix
from sklearn.model_selection import cross_val_score, train_test_split
iris = load_iris(as_frame=True)
iris.frame.head()
# %%
Xa, Xb, ya, yb = train_test_split(iris.data, iris.target, test_size=0.3, random_state=42, stratify=iris.target)
forest = RandomForestClassifier(n_estimators=20, random_state=0).fit(Xa, ya)
print(classification_report(yb, forest.predict(Xb), target_names=iris.target_names))
# %%
confusion_matrix(yb, forest.predict(Xb))
# %%
scores = cross_val_score(forest, iris.data, iris.target, cv=3)
scores.round(3), scores.mean().round(4)
# %%
sorted(zip(forest.feature_importances_.round(3), iris.feature_names), reverse=True)
