// Hostile: yields to the event loop once, so that a timeout around the first turn does not end it, then never again.
await sleep(0);
console.log("still here");
for (;;) {}
