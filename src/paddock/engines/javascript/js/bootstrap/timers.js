// Timers: a binary heap, the next one first. A cleared timer stays in it until it reaches the top.
const timers = [];
const waiting = new Table();
let timerCount = 0;
const before = (one, other) => one.due < other.due || (one.due === other.due && one.id < other.id);
function setTimeout(callback, delay, ...values) {
  if (typeof callback !== "function") throw new NativeTypeError("setTimeout needs a function, not " + typeof callback);
  const wait = NumberOf(delay);
  return addTimer({ id: ++timerCount, due: now() + (wait > 0 ? wait : 0), every: 0, callback, values });
}
// At least a millisecond apart, so that other code can run.
function setInterval(callback, delay, ...values) {
  if (typeof callback !== "function") throw new NativeTypeError("setInterval needs a function, not " + typeof callback);
  const wait = NumberOf(delay);
  const every = wait > 1 ? wait : 1;
  return addTimer({ id: ++timerCount, due: now() + every, every, callback, values });
}
function addTimer(timer) {
  let at = timers.length;
  for (let up; at > 0 && before(timer, timers[(up = (at - 1) >>> 1)]); at = up) timers[at] = timers[up];
  timers[at] = timer;
  apply(mapSet, waiting, [timer.id, timer]);
  header[NEXT_DUE] = timers[0].due;
  return timer.id;
}
function clearTimeout(id) {
  apply(mapDelete, waiting, [id]);
  while (timers.length > 0 && apply(mapGet, waiting, [timers[0].id]) === undefined) removeFirst();
  header[NEXT_DUE] = timers.length > 0 ? timers[0].due : Infinity;
}
function removeFirst() {
  const last = timers[timers.length - 1];
  timers.length--;
  if (timers.length === 0) return;
  let at = 0;
  for (let child = 1; child < timers.length; at = child, child = 2 * at + 1) {
    if (child + 1 < timers.length && before(timers[child + 1], timers[child])) child++;
    if (before(last, timers[child])) break;
    timers[at] = timers[child];
  }
  timers[at] = last;
}
function fire() {
  const timer = timers[0];
  if (timer === undefined || header[SETTLED] !== 0 || timer.due > now()) return;
  clearTimeout(timer.id);
  if (timer.every > 0) {
    timer.due = max(timer.due + timer.every, now());
    addTimer(timer);
  }
  try {
    apply(timer.callback, undefined, timer.values);
  } catch (thrown) {
    fail(thrown);
  }
}
let sleepCap = 0;
function sleep(ms) {
  return new NativePromise((resolve) => {
    const wait = NumberOf(ms);
    setTimeout(resolve, wait > 0 ? min(wait, sleepCap) : 0);
  });
}
const clearInterval = { clearInterval(id) { clearTimeout(id); } }.clearInterval;

// Runs a function after the queued microtasks; an exception in it ends the program.
function queueMicrotask(callback) {
  if (typeof callback !== "function") throw new NativeTypeError("queueMicrotask needs a function, not " + typeof callback);
  apply(then, nothing, [() => {
    try {
      callback();
    } catch (thrown) {
      fail(thrown);
    }
  }]);
}
const nothing = Promise.resolve();
defineProperty(nothing, "constructor", { value: undefined }); // as in `start`

// An exception in its callback ends the program, as in a timer; V8 would only print it.
const NativeRegistry = FinalizationRegistry;
function FinalRegistry(callback) {
  if (new.target === undefined) throw new NativeTypeError("Constructor FinalizationRegistry requires 'new'");
  if (typeof callback !== "function") throw new NativeTypeError("FinalizationRegistry: cleanup must be callable");
  const own = execution;
  const cleanup = (held) => {
    if (own !== execution) return; // its execution has ended
    try {
      callback(held);
    } catch (thrown) {
      fail(thrown);
    }
  };
  return construct(NativeRegistry, [cleanup], new.target);
}
defineProperty(FinalRegistry, "name", { value: "FinalizationRegistry", configurable: true });
defineProperty(FinalRegistry, "prototype", { value: NativeRegistry.prototype, writable: false });
defineProperty(NativeRegistry.prototype, "constructor", { value: FinalRegistry, writable: true, configurable: true });
