class Account {
  #balance = 0;
  constructor(owner) { this.owner = owner; }
  deposit(n) { if (n <= 0) throw new RangeError(`invalid amount: ${n}`); this.#balance += n; return this; }
  get balance() { return this.#balance; }
}
const acc = new Account('Zoë').deposit(50);
console.log(acc, acc.balance);
// %%
acc.deposit(-1);
// %%
try { acc.deposit(0); } catch (e) { console.log(e.name, e.message); }
// %%
class AppError extends Error { constructor(m) { super(m); this.name = 'AppError'; } }
throw new AppError('boom');
// %%
const acc2 = acc;
console.log(acc2 === acc, acc instanceof Account);
// %%
undefinedThing();
// %%
console.log(typeof Account, `${acc.owner} has ${acc.balance}`);
