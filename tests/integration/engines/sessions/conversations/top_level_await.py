import asyncio
async def fetch(n, delay):
    await asyncio.sleep(delay)
    print("done", n)
    return n * n
await fetch(2, 0)
# %%
results = await asyncio.gather(*(fetch(n, (3 - n) / 50) for n in range(3)))
results
# %%
async def numbers():
    for n in range(3):
        await asyncio.sleep(0)
        yield n
[n async for n in numbers()]
# %%
async with asyncio.timeout(0.01):
    await asyncio.sleep(5)
# %%
async for n in numbers():
    print(n, end=" ")
# %%
lock = asyncio.Lock()
async with lock:
    x = lock.locked()
x, lock.locked()
# %%
async def broken():
    raise RuntimeError("no connection")
await asyncio.gather(broken(), return_exceptions=True)
# %%
await broken()
