import re
log = """2024-05-01 10:00:01 INFO  start
2024-05-01 10:00:05 ERROR disk full: /dev/sda1
2024-05-02 11:30:00 WARN  retry 3
2024-05-02 11:31:10 ERROR timeout after 30s"""
pattern = re.compile(r"^(?P<day>\S+) (?P<time>\S+) (?P<level>[A-Z]+)\s+(?P<text>.*)$", re.M)
pattern
# %%
[m.groupdict() for m in pattern.finditer(log)]
# %%
m = pattern.search(log)
m, m.span(), m.group("level")
# %%
re.sub(r"\d+", lambda n: str(int(n.group()) + 1), "a1 b22 c333")
# %%
re.split(r"[,;]\s*", "a, b;c,d"), re.findall(r"(?i)[aeiou]", "Education")
# %%
re.compile("(unclosed")
# %%
re.compile("a|b", re.IGNORECASE | re.VERBOSE), re.compile(b"\\d")
