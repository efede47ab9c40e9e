function* fib() { let [a, b] = [0, 1]; for (;;) { yield a; [a, b] = [b, a + b]; } }
const g = fib();
console.log(Array.from({ length: 8 }, () => g.next().value));
// %%
console.log(g.next());
// %%
const counter = (() => { let n = 0; return () => ++n; })();
counter(); counter();
console.log(counter());
// %%
const [first, ...rest] = 'a,b,c'.split(',');
console.log(first, rest, { ...{ x: 1 }, y: [2] });
// %%
let n = 0;
while (n < 3) { console.log(n); n++; }
// %%
null.length;
// %%
console.log([...Array(120).keys()]);
// %%
console.log('%s is %d and %o', 'x', 42, { a: 1 });
