const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
await sleep(1);
console.log('slept');
// %%
const results = await Promise.all([1, 2, 3].map(async (n) => { await sleep(3 - n); return n * n; }));
console.log(results);
// %%
await Promise.reject(new TypeError('refused'));
// %%
for await (const x of (async function* () { yield 1; yield 2; })()) console.log(x);
// %%
const settled = await Promise.allSettled([Promise.resolve(1), Promise.reject(new Error('no'))]);
console.log(settled.map((s) => s.status));
// %%
console.log(results.length);
