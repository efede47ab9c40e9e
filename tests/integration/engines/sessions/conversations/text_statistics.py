text = """It was the best of times, it was the worst of times,
it was the age of wisdom, it was the age of foolishness"""
words = text.lower().replace(",", "").split()
len(words), len(set(words))
# %%
from collections import Counter
Counter(words).most_common(4)
# %%
import textwrap, string, difflib
print(textwrap.fill(text, 30))
print(textwrap.indent("a\nb", "> "))
# %%
text.split("\n"), text.title()[:20], string.ascii_letters[:5]
# %%
text
# %%
print("\n".join(difflib.unified_diff(["a", "b"], ["a", "c"], lineterm="")))
# %%
"{:>8.2f}|{:<6}|{:^7}|{:,}".format(3.14159, "ab", "mid", 1234567)
# %%
"{0} {1}".format("only one")
