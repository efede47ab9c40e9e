// Hostile: gives the event loop back once, so that a timeout around the first turn misses it, and never again.
await sleep(0);
console.log("still here");
for (;;) {}
