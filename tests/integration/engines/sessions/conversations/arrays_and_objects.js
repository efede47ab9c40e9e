const sales = [
  { region: 'N', units: 10, price: 2.5 },
  { region: 'S', units: 4, price: 2.5 },
  { region: 'N', units: 7, price: 11 },
];
console.log(sales);
// %%
const total = sales.reduce((sum, { units, price }) => sum + units * price, 0);
console.log('total', total, sales.map((s) => s.region));
// %%
const byRegion = Object.groupBy ? Object.groupBy(sales, (s) => s.region) : sales.reduce((o, s) => ((o[s.region] ??= []).push(s), o), {});
console.log(JSON.stringify(byRegion, null, 2));
// %%
console.table(sales);
// %%
sales.nope.length;
// %%
console.log(new Map([['a', { deep: { deeper: { deepest: 1 } } }]]), new Set([1, 'x']));
// %%
sales.length
