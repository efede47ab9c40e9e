// Pure computations: of the host, the program sees only `read_input` and `emit`.
const HOST_NAMES = ["console", "servers", "setTimeout", "clearTimeout", "sleep"];
const PIECE_UNITS = 65536;
let computing = false;
let given = "";
let emitLeft = 0;
let emitAtOnce = false;
let overflowed = false;
let unsent = "";
let ending = null;
let pending = false; // whether its state was requested and is not yet known

// The longest beginning of a string that fits into `room` bytes of UTF-8, in whole characters, and its size.
function fitting(text, room) {
  const head = apply(toWellFormed, text.length > room ? apply(slice, text, [0, room]) : text, []);
  if (apply(exec, NOT_ASCII, [head]) === null) return { head, bytes: head.length };
  let bytes = 0;
  let end = 0;
  while (end < head.length) {
    const unit = apply(charCodeAt, head, [end]);
    const size = unit < 0x80 ? 1 : unit < 0x800 ? 2 : isHigh(unit) ? 4 : 3;
    if (bytes + size > room) break;
    bytes += size;
    end += size === 4 ? 2 : 1;
  }
  return { head: apply(slice, head, [0, end]), bytes };
}

// A number with the digits that it came in with.
function spelled(double) {
  const literal = apply(mapGet, literals, [double]);
  const at = { path: () => "A number that was emitted" };
  if (literal === null) tellInexact(at, double, TWIN);
  if (literal === undefined && isTooLarge(double)) tellInexact(at, double, TOO_LARGE);
  return literal ?? StringOf(double);
}

// Sends the emitted text in pieces of whole characters. Any call in here may overflow the stack; therefore a single statement
// after the send removes the sent part.
function flush() {
  while (unsent !== "") {
    let end = min(unsent.length, PIECE_UNITS);
    if (end < unsent.length && isHigh(apply(charCodeAt, unsent, [end - 1]))) end--;
    const rest = apply(slice, unsent, [end]);
    send('["emit",' + stringify(apply(slice, unsent, [0, end])) + "]");
    unsent = rest;
  }
}

// Ends the program at once: the worker does not return from this post, so that the program cannot catch it.
function overflow() {
  overflowed = true;
  flush();
  header[OPERATION] = HALT;
  post();
}

const { read_input, emit } = {
  read_input() { return given; },
  emit(value) {
    if (arguments.length === 0) return;
    const text = typeof value === "number" && (remembers || isTooLarge(value)) ? spelled(value) : `${value}`;
    const { head, bytes } = fitting(text, emitLeft);
    emitLeft -= bytes;
    unsent += head;
    if (overflowed || head.length < text.length) overflow();
    else if (emitAtOnce || unsent.length > PIECE_UNITS) flush();
  },
};
freeze(read_input);
freeze(emit);

// A Date whose present time is that of `read`, in milliseconds since 1970. No other object reveals the native Date's time.
function steppedDate(read) {
  function StoppedDate() {
    if (new.target === undefined) return apply(dateText, new NativeDate(read()), []);
    return construct(NativeDate, arguments.length === 0 ? [read()] : arguments, new.target);
  }
  const { now } = { now() { return read(); } };
  const own = (value, writable) => ({ value, writable, configurable: writable, enumerable: false });
  defineProperty(StoppedDate, "name", { value: "Date", configurable: true });
  defineProperty(StoppedDate, "length", { value: 7, configurable: true });
  defineProperty(StoppedDate, "prototype", own(NativeDate.prototype, false));
  defineProperty(StoppedDate, "now", own(now, true));
  defineProperty(StoppedDate, "parse", own(NativeDate.parse, true));
  defineProperty(StoppedDate, "UTC", own(NativeDate.UTC, true));
  return StoppedDate;
}

// Makes the global object of a computation; `instant` is null if it has a clock. The rehearsal has its own world and dates.
function compute({ input, output, partial, seed, instant, frame, exact: warns }, world, dates) {
  computing = true;
  given = input;
  emitLeft = output;
  emitAtOnce = partial;
  frameLimit = frame;
  outputLeft = TEXT; // only for warnings: there is no console
  linesLeft = INEXACT_SHOWN;
  if (!warns) inexact = INEXACT_SHOWN;
  seedRandom(seed);
  for (const name of HOST_NAMES) delete world[name];
  reduce(world);
  provide("globalThis", world, world);
  provide("read_input", read_input, world);
  provide("emit", emit, world);
  if (instant === null) return;
  const stopped = steppedDate(() => instant);
  provide("Date", stopped, world);
  defineProperty(dates, "constructor", { value: stopped, writable: true, configurable: true, enumerable: false });
  delete world.Intl; // its formats reveal the time
}

// The promise that the program evaluated to, as `main()` does.
function follow(promise) {
  ending = promise;
}

// Called after the program and everything that it queued. Only then attaches a handler to the last promise, because that counts
// as handling its rejection. What the handler queues runs before the next call.
function computed() {
  if (overflowed) return overflow();
  const reasons = unhandledReasons();
  if (0 in reasons) return settle("failed", describe(reasons[0]));
  if (pending) return settle("stuck", "{}");
  if (ending !== null) {
    const settled = () => { pending = false; };
    const promise = ending;
    ending = null;
    pending = true;
    defineProperty(promise, "constructor", { value: undefined }); // as in `start`
    try {
      apply(then, promise, [settled, settled]);
    } catch {
      settled(); // a promise class of the program, whose state cannot be read
    }
    return;
  }
  settle("done", '{"open":[],"value":' + stringify(unsent) + "}");
}

function rehearseCompute() {
  compute({ input: "", output: 4, partial: false, seed: [1, 2, 3, 4], instant: 0, frame: 0 }, {}, {});
  emit("xé");
  computed();
  unsent = "";
  computing = false;
}
