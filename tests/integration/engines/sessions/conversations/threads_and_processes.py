from concurrent.futures import ThreadPoolExecutor
def work(n):
    return n * n
with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(work, range(6))))
# %%
import threading
def talk(n): print("thread", n)
for n in range(3):
    t = threading.Thread(target=talk, args=(n,)); t.start(); t.join()
# %%
import subprocess
r = subprocess.run(["echo", "hello"], capture_output=True, text=True)
r.stdout, r.returncode
# %%
subprocess.run(["sh", "-c", "exit 3"], check=True)
# %%
with ThreadPoolExecutor(1) as pool:
    pool.submit(work, "x").result()
# %%
import multiprocessing as mp
with mp.get_context("fork").Pool(2) as pool:
    out = pool.map(work, [1, 2, 3])
out
