// Loaded before the official conformance suite: what it gives up waiting for after a second may take ten on a busy
// machine. Its other timers, which set a pace, stay as they are.
const wait = globalThis.setTimeout;
const patient = (act, ms, ...rest) => wait(act, /\babort\(\)/.test(String(act)) ? 10 * ms : ms, ...rest);
globalThis.setTimeout = Object.defineProperties(patient, Object.getOwnPropertyDescriptors(wait));
