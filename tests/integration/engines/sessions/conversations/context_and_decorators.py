from contextlib import contextmanager, redirect_stdout, suppress
import io, functools
@contextmanager
def tag(name):
    print(f"<{name}>")
    try:
        yield name.upper()
    finally:
        print(f"</{name}>")
with tag("p") as t:
    print(t)
# %%
with tag("div"):
    raise KeyError("inside")
# %%
def logged(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        print("call", f.__name__, args, kwargs)
        return f(*args, **kwargs)
    return wrapper
@logged
def add(a, b=1):
    "Add two numbers."
    return a + b
add(2, b=3)
# %%
add
# %%
buf = io.StringIO()
with redirect_stdout(buf):
    print("caught")
buf.getvalue()
# %%
help(add)
# %%
with suppress(ZeroDivisionError):
    1 / 0
add.__doc__
