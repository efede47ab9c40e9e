class ValidationError(ValueError):
    def __init__(self, field, reason):
        super().__init__(f"{field}: {reason}")
        self.field = field
raise ValidationError("age", "must be positive")
# %%
try:
    raise ValidationError("name", "empty")
except ValueError as e:
    caught = e
caught, caught.field, str(caught)
# %%
try:
    raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])
except* (ValueError, KeyError) as group:
    print(group.exceptions)
# %%
raise Exception
# %%
raise KeyError("multi\nline")
# %%
class Odd(Exception):
    def __str__(self): return "ünï " + "x" * 50
raise Odd()
# %%
raise ImportError("no module") from None
# %%
import not_a_module
