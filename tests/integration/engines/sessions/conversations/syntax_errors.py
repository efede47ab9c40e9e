x = 1
# %%
def f(:
    pass
# %%
for i in range(3)
    print(i)
# %%
print("not run")
y = (1, 2))
# %%
if x:
print("bad indent")
# %%
x = "unterminated
# %%
x
# %%
return 5
# %%
await_ = 1; await_ + x
