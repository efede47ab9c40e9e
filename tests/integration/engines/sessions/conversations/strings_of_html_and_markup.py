from html import escape, unescape
from xml.etree import ElementTree as ET
tree = ET.fromstring("<list><item n='1'>a</item><item n='2'>b &amp; c</item></list>")
[(item.get("n"), item.text) for item in tree]
# %%
tree
# %%
escape("<a href='x'>"), unescape("&lt;&eacute;")
# %%
ET.fromstring("<open/>").attrib["n"]
# %%
from html.parser import HTMLParser
class Links(HTMLParser):
    found = []
    def handle_starttag(self, tag, attrs):
        if tag == "a": self.found.append(dict(attrs).get("href"))
Links().feed("<p><a href='/x'>x</a><a>y</a></p>")
Links.found
# %%
class Table:
    def __init__(self, rows): self.rows = rows
    def _repr_html_(self):
        return "<table>" + "".join("<tr>" + "".join(f"<td>{c}</td>" for c in r) + "</tr>" for r in self.rows) + "</table>"
Table([[1, 2], [3, 4]])
# %%
import pandas as pd
print(pd.DataFrame({"a": [1]}).to_html(index=False))
