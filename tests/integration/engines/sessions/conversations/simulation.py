import random
random.seed(12)
rolls = [random.randint(1, 6) + random.randint(1, 6) for _ in range(2000)]
from collections import Counter
Counter(rolls)
# %%
for total, count in sorted(Counter(rolls).items()):
    print(f"{total:>2} {'█' * (count // 20)} {count}")
# %%
inside = sum(random.random() ** 2 + random.random() ** 2 <= 1 for _ in range(20000))
4 * inside / 20000
# %%
class Walker:
    def __init__(self): self.x = 0
    def step(self): self.x += random.choice([-1, 1]); return self.x
w = Walker()
path = [w.step() for _ in range(60)]
path
# %%
w.jump()
# %%
max(path), min(path), path[-1] == w.x
