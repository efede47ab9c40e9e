from pathlib import Path
Path("data/raw").mkdir(parents=True)
for n in range(3):
    Path(f"data/raw/part{n}.txt").write_text(f"line {n}\n" * (n + 1))
sorted(p.as_posix() for p in Path("data").rglob("*"))
# %%
with open("data/all.txt", "w") as out:
    for p in sorted(Path("data/raw").glob("*.txt")):
        out.write(p.read_text())
print(open("data/all.txt").read(), end="")
# %%
open("data/missing.txt")
# %%
import json
config = {"name": "test", "values": [1, 2.5, None, True], "nested": {"ä": "ö"}}
json.dump(config, open("config.json", "w"), indent=2, ensure_ascii=False)
print(Path("config.json").read_text())
# %%
json.loads('{"a": 1,}')
# %%
import os, shutil
shutil.rmtree("data/raw")
os.listdir("data"), os.path.exists("data/raw"), os.stat("data/all.txt").st_size
# %%
import csv
with open("out.csv", "w", newline="") as f:
    w = csv.DictWriter(f, ["a", "b"]); w.writeheader(); w.writerows([{"a": 1, "b": "x,y"}, {"a": 2, "b": 'q"'}])
list(csv.DictReader(open("out.csv")))
