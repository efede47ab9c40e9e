const os = require('node:os');
const assert = require('node:assert');
const { promisify, inspect } = require('node:util');
console.log(typeof os.cpus, inspect({ a: [1, { b: 2 }] }, { compact: true }));
// %%
assert.strictEqual(1 + 1, 2);
assert(false, 'assertion text');
// %%
require('not-a-module');
// %%
const crypto = require('node:crypto');
console.log(crypto.createHash('sha256').update('x').digest('hex'));
// %%
console.log(Buffer.from('hé').toString('base64'), new Uint8Array([1, 2]), Symbol('s'));
// %%
console.log([1, , 3], [undefined, null], function named() {}, class {}, () => 1);
// %%
const os = 2;
