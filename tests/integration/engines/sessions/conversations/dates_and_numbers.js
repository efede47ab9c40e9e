const d = new Date(Date.UTC(2024, 1, 29, 12));
console.log(d.toISOString(), d);
// %%
console.log(0.1 + 0.2, 2 ** 64, 10n ** 20n, -0, NaN, 1 / 3);
// %%
console.log((1234567.891).toLocaleString('en-US'), (255).toString(16), Number('12px'));
// %%
(1).toFixed(200);
// %%
console.log(Math.max(...[3, 1, 2]), [10, 9, 1].sort(), [10, 9, 1].sort((a, b) => a - b));
// %%
BigInt(1.5);
// %%
console.log(new Date('nonsense'), typeof d.getTime());
