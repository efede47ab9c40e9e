const text = 'Ann: 30\nBob: 25';
for (const { groups } of text.matchAll(/(?<name>\w+): (?<age>\d+)/g)) console.log(groups.name, Number(groups.age));
// %%
console.log(text.replace(/\d+/g, (n) => n * 2));
// %%
new RegExp('(');
// %%
console.log('Größe 🎉'.length, [...'🎉é'], 'ß'.toUpperCase(), 'abc'.at(-1));
// %%
console.error('to standard error');
console.log('to standard output');
// %%
process.stdout.write('no line end');
// %%
console.log(/a(b)?/.exec('a'), 'x'.padStart(4, '-'));
