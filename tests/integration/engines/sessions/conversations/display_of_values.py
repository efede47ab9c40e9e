from IPython.display import HTML, Markdown, display, JSON, Latex
import pandas as pd
display(1, "two", [3.0])
display(pd.DataFrame({"a": [1, 2]}), pd.Series([1.5], name="s"))
HTML("<b>bold</b>")
# %%
display(Markdown("# Title"))
display(Latex("$x^2$"))
print("plain")
display({"a": {"b": 1}})
# %%
display({"text/plain": "raw text", "text/html": "<i>raw</i>"}, raw=True)
# %%
class Rich:
    def _repr_html_(self): return "<u>rich</u>"
    def __repr__(self): return "Rich()"
class Broken:
    def _repr_html_(self): raise ValueError("bad form")
    def __repr__(self): return "Broken()"
Rich()
# %%
[Rich(), None, ...]
# %%
None
# %%
x = 5; x;
# %%
x # comment;
# %%
(x +
 1);
# %%
"text;"
