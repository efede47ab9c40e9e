// Hostile: allocates eight gigabytes outside the JavaScript heap, where a heap limit does not apply.
const hoard = [];
for (let n = 0; n < 1024; n++) hoard.push(new ArrayBuffer(8 * 1024 * 1024));
return hoard.length;
