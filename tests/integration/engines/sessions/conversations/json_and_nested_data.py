import json
doc = json.loads('{"users": [{"id": 1, "tags": ["a", "b"], "geo": {"lat": 1.5, "lon": -2}}, {"id": 2, "tags": [], "geo": null}]}')
doc
# %%
print(json.dumps(doc, indent=1, sort_keys=True))
# %%
doc["users"][1]["geo"]["lat"]
# %%
import pandas as pd
pd.json_normalize(doc["users"])
# %%
def walk(node, path="$"):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from walk(value, f"{path}.{key}")
    elif isinstance(node, list):
        for n, value in enumerate(node):
            yield from walk(value, f"{path}[{n}]")
    else:
        yield path, node
dict(walk(doc))
# %%
json.dumps({1, 2})
# %%
from pprint import pprint
pprint(doc, width=40)
