"""Count the readings of each city that are at or below a temperature."""

import csv
import json
import sys

inputs = json.load(sys.stdin)
frosts = dict[str, int]()
for row in csv.DictReader(inputs["readings"].splitlines()):
    frosts[row["city"]] = frosts.get(row["city"], 0) + (float(row["degrees"]) <= inputs["at_most"])
print(json.dumps({"cities": frosts, "total": sum(frosts.values())}))
