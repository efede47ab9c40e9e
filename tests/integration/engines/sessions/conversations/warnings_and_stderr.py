import sys, warnings
print("out 1")
print("err 1", file=sys.stderr)
print("out 2")
warnings.warn("careful")
print("out 3")
# %%
import numpy as np
np.array([1.0, 0.0]) / 0
# %%
np.log([-1, 0, 1])
# %%
def old():
    warnings.warn("old() is deprecated", DeprecationWarning, stacklevel=2)
    return 1
old()
# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("hidden", UserWarning)
[str(w.message) for w in caught]
# %%
warnings.simplefilter("error")
warnings.warn("now an error", RuntimeWarning)
# %%
sys.stderr.write("no line end")
# %%
import logging
logging.warning("watch out %d", 3)
logging.getLogger("my.app").error("failed")
logging.info("not shown")
