// Sessions: the top-level declarations of a program become properties of the global object, where later programs find them. The
// parser turns each declaration into an assignment (session_names.js).
let execution = 0; // its number in the session; 0 outside of sessions
const declared = new Table(); // names that programs declared
let uninitialized = []; // `let` and `const` that were declared, until their first assignment

// Declares the names of a program. `functions` are pairs of a name and a function; the others are lists of names.
function declare(functions, lets, consts, vars) {
  for (let i = 0; i < vars.length; i++) declareVar(vars[i]);
  for (let i = 0; i < functions.length; i++) {
    const name = functions[i][0];
    const value = functions[i][1];
    defineProperty(value, "name", { value: name, writable: false, enumerable: false, configurable: true });
    share(name, value, true);
  }
  for (let i = 0; i < lets.length; i++) declareLater(lets[i], true);
  for (let i = 0; i < consts.length; i++) declareLater(consts[i], false);
}

function share(name, value, writable) {
  apply(mapSet, declared, [name, true]);
  fix(name, { value, writable, enumerable: true, configurable: true });
}
function fix(name, property) {
  if (!defineProperty(global, name, property)) throw new NativeTypeError("Cannot declare " + name + ": the global object has a fixed property of this name");
}

// A `var` keeps the value that an earlier program gave it.
function declareVar(name) {
  const { value } = apply(mapGet, declared, [name]) ? (getOwnPropertyDescriptor(global, name) ?? {}) : {};
  share(name, value, true);
}

// Until its first assignment, reading a name is an error, as in ECMA-262. That assignment is the declaration.
function declareLater(name, writable) {
  const entry = { name, previous: getOwnPropertyDescriptor(global, name), was: apply(mapGet, declared, [name]), done: false };
  const { get, set } = {
    get() { throw new NativeReferenceError("Cannot access '" + name + "' before initialization"); },
    set(value) {
      entry.done = true;
      share(name, value, writable);
    },
  };
  uninitialized[uninitialized.length] = entry;
  apply(mapSet, declared, [name, true]);
  fix(name, { get, set, enumerable: true, configurable: true });
}

// A declaration that its program did not reach leaves what was there before.
function withdrawUnreached() {
  for (let i = 0; i < uninitialized.length; i++) {
    const { name, previous, was, done } = uninitialized[i];
    if (done) continue;
    if (was === undefined) apply(mapDelete, declared, [name]);
    if (previous === undefined) delete global[name];
    else defineProperty(global, name, previous);
  }
  uninitialized = [];
}

// Forgets what earlier executions left unfinished: their timers, calls, and rejected promises. Nothing of them goes on by itself.
function renew(number) {
  execution = number;
  unhandledReasons();
  withdrawUnreached();
  header[OPEN_CALLS] = header[QUEUED] = 0;
  header[NEXT_DUE] = Infinity;
  queue.length = taken = timers.length = unseen.length = 0;
  apply(mapClear, waiting, []);
  apply(mapClear, calls, []);
  callCount = raced = inexact = 0;
  outputCut = false;
  margin = "";
  lastThrown = null;
  origin = -1;
}

// The host ends an execution that has not ended by itself.
function end() {
  header[SETTLED] = 1;
  header[QUEUED] = header[OPEN_CALLS] = 0;
}
