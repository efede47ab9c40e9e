const fs = require('node:fs');
const path = require('node:path');
fs.writeFileSync('notes.txt', 'línea 1\nline 2\n');
console.log(fs.readFileSync('notes.txt', 'utf8'));
// %%
const rows = fs.readFileSync('notes.txt', 'utf8').trim().split('\n').map((l, i) => ({ i, l }));
fs.writeFileSync('rows.json', JSON.stringify(rows));
console.log(fs.readdirSync('.').sort());
// %%
fs.readFileSync('missing.txt');
// %%
console.log(path.join('a', '..', 'b'), path.extname('x.tar.gz'), fs.existsSync('rows.json'));
// %%
JSON.parse('{"a": 1,}');
// %%
const { a = 5 } = JSON.parse('{}');
console.log(a);
