import sys, time
for n in range(5):
    print(f"\rstep {n + 1}/5", end="", flush=True)
print()
# %%
def bar(total):
    for n in range(total + 1):
        sys.stderr.write("\r[" + "#" * n + "." * (total - n) + "]")
        sys.stderr.flush()
    sys.stderr.write("\n")
bar(6)
"done"
# %%
for n in range(3):
    print("working", n, end="\r")
print("finished ")
# %%
print("a\tb\bc\x1b[31mred\x1b[0m")
