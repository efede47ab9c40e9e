from dataclasses import dataclass, field
from enum import Enum

class Level(Enum):
    LOW = 1
    HIGH = 2

@dataclass(order=True)
class Task:
    priority: int
    name: str = field(compare=False)
    tags: list = field(default_factory=list, compare=False)
    level: Level = Level.LOW

Task(2, "write")
# %%
tasks = [Task(3, "deploy", ["ops", "prod"]), Task(1, "plan"), Task(2, "write", level=Level.HIGH)]
sorted(tasks)
# %%
class Account:
    """A bank account."""
    count = 0
    def __init__(self, owner, balance=0):
        self.owner, self.balance = owner, balance
        Account.count += 1
    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError(f"insufficient funds: {self.balance} < {amount}")
        self.balance -= amount
        return self
    def __repr__(self):
        return f"Account({self.owner!r}, {self.balance})"

a = Account("Zoë", 100)
a.withdraw(30)
# %%
a.withdraw(500)
# %%
a, Account.count, Account, Level, Level.HIGH, Task
# %%
class Plain: pass
[Plain(), Plain]
# %%
def area(w: float, h: float = 2.0, *, scale=1) -> float:
    return w * h * scale
area
# %%
import inspect
print(inspect.getsource(area))
area(3, scale=2), area.__annotations__
