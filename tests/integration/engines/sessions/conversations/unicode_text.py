s = "Größe: naïve café – 数据分析 🎉 Ελληνικά العربية"
s
# %%
print(s, len(s), len(s.encode()))
# %%
import unicodedata
[unicodedata.name(c) for c in "é🎉数"], unicodedata.normalize("NFD", "é") == "é"
# %%
print("\u200bzero\u200b", repr("\u200b\x00\x7f\xa0"), ascii("é"))
# %%
b"\xff\xfe".decode("utf-8")
# %%
größe = {"π": 3.14159, "名前": "田中", "emoji": "👩‍👩‍👧"}
größe
# %%
import pandas as pd
pd.DataFrame({"naïve": ["é", "数据"], "🎉": [1, 2]})
# %%
print(*sorted(["Zebra", "äpfel", "Apfel", "zoo"], key=str.casefold), sep="|")
