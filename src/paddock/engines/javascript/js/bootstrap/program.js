// The program: its start, its end, and the worker's tasks.
let settings = null;
function settle(kind, body) {
  if (header[SETTLED] !== 0) return;
  header[SETTLED] = 1;
  deliver(head(kind) + (typeof body === "string" ? body : stringify(body)) + "]");
}

// The reasons of rejected promises without a handler, by number. V8 reports every rejection to the worker, also this one, and
// the worker fills `reasons`.
function unhandledReasons() {
  const reasons = create(null);
  header[OPERATION] = GATHER;
  try {
    apply(reject, NativePromise, [reasons]);
  } finally {
    header[OPERATION] = 0; // otherwise the worker would take a rejection of the program for this one
  }
  return reasons;
}

// Reports unhandled rejections as browsers do, because a forgotten `await` hides errors. `known` is reported elsewhere.
function tellRejections(known) {
  if (rawResults) return;
  const reasons = unhandledReasons();
  for (let i = 0; i in reasons; i++) {
    if (reasons[i] !== known) send('["unhandled",' + stringify(describe(reasons[i])) + "]");
  }
}

function fail(thrown) {
  if (header[SETTLED] !== 0) return;
  const report = describe(thrown);
  tellRejections(thrown);
  settle("failed", report);
}

const OPEN_SHOWN = 16;
function openCalls(from, to) {
  const names = [];
  let site = "";
  for (let id = from; id <= to && names.length < OPEN_SHOWN; id++) {
    const call = apply(mapGet, calls, [id]);
    if (call === undefined) continue;
    if (names.length === 0) site = framesOf(call.site, "");
    names[names.length] = call.server + "." + call.tool;
  }
  return { names, site };
}

function finish(value) {
  if (header[SETTLED] !== 0) return;
  let text;
  try {
    text = rawResults ? stringify(value) : exactly(value, "result");
  } catch (thrown) {
    return fail(thrown);
  }
  for (let i = 0; i < unseen.length; i++) {
    if (!unseen[i].seen) return fail(unseen[i].error);
  }
  tellRejections(unseen);
  if (!rawResults) tellLost(value, text);
  const left = openCalls(1, raced);
  if (left.names.length > 0 && !rawResults) {
    print("warn", ["Cancelled, because the program ended without waiting for them: " + apply(join, left.names, [", "])]);
  }
  const { names, site } = openCalls(raced + 1, callCount);
  const head = '{"open":' + stringify(names) + (site === "" ? "" : ',"site":' + stringify(site));
  if (text === undefined) return settle("done", head + "}");
  let room = settings.result;
  if (text.length > room || !fits(text)) {
    if (!rawResults) return names.length > 0 ? settle("done", head + "}") : handOver(value, text);
    const whole = typeof value === "string" ? value : text;
    do {
      text = stringify(apply(slice, whole, [0, room]) + "... [result truncated]");
      room >>>= 1;
    } while (room > 0 && !fits(text));
  }
  settle("done", head + ',"value":' + text + "}");
}

// Sends a result over its limit as text to be stored, because no replacement would be correct. `text` is its JSON.
let keptLimit = 0;
function handOver(value, text) {
  const whole = typeof value === "string" ? value : inLines(value, text);
  const kept = whole.length <= keptLimit;
  if (kept) sendPieces(whole, max((frameLimit / 8) >>> 0, 1)); // an escape has six characters
  header[SETTLED] = 1;
  sendLater('["oversized",' + stringify({ characters: text.length, kept }) + "]"); // after the pieces
}
// JSON with a line for each member, which can be searched and read in parts; `text` if that fails.
function inLines(value, text) {
  try {
    const lines = exactly(value, "result", 1);
    return typeof lines === "string" && lines.length <= keptLimit ? lines : text;
  } catch {
    return text;
  }
}

function stuck() {
  tellRejections(unseen);
  settle("stuck", "{}");
}

let program = null;
function start(given) {
  delete global.__paddock;
  program = given;
  let running;
  try {
    // The root object of a library bundled as UMD, as in a browser script. The compat names have no global object.
    running = apply(program, rawResults ? undefined : global, [settings.input, marked, decorating, declare]);
  } catch (thrown) {
    return fail(thrown);
  }
  defineProperty(running, "constructor", { value: undefined }); // otherwise `then` would construct a promise of a guest's class
  apply(then, running, execution > 0 ? [during(finish), during(fail)] : [finish, fail]);
}

// In a session, a later program may settle what an earlier one waited for. The earlier one then ends without a result.
function during(settled) {
  const own = execution;
  return (value) => {
    if (own === execution) settled(value);
  };
}

function provide(name, value, world = global) {
  defineProperty(world, name, { value, writable: true, configurable: true, enumerable: false });
}

function configure(given) {
  settings = given;
  if (given.session > 0) renew(given.session);
  header[SETTLED] = 0;
  outputLeft = given.output;
  linesLeft = given.lines;
  frameLimit = given.frame;
  keptLimit = given.kept;
  callLimit = given.calls;
  sleepCap = given.sleep;
  seedRandom(given.seed);
  rawResults = given.raw;
  beganAt = wallNow();
  if (given.clock !== undefined) stepClock(given.clock);
  keepDigits(!rawResults);
  if (rawResults) {
    reduce(global);
    provide("console", seedConsole);
  } else {
    positions = given.positions ?? null;
    provide("toJSON", errorJson, NativeError.prototype);
    if (given.numbers !== undefined) rememberWritten(given.numbers);
  }
  const sdk = { __proto__: null, ...methods, vars: freeze({ __proto__: null, ...given.vars }), workspace: freeze({ __proto__: null, path: given.workspace }) };
  if (given.input !== undefined) sdk.input = given.input;
  if (given.input !== undefined || (execution > 0 && !apply(mapGet, declared, ["input"]))) provide("input", given.input);
  const { commands } = given;
  for (let i = 0; i < commands.length; i++) offer(sdk, commands[i], askNow);
  for (let i = 0; i < commands.length; i++) freeze(sdk[apply(slice, commands[i], [0, apply(indexOf, commands[i], ["."])])]);
  freeze(sdk);
  provide("paddock", sdk);
  if (given.alias !== undefined) provide(given.alias, sdk);
  provide("__paddock", start);
}

// Runs the code that most programs use, so that every worker is forked with it compiled.
function rehearse() {
  header[SETTLED] = 0; // after the program's end there are no calls
  print("log", ["x"]);
  send(stringify([describe(new NativeError("x")), utf8Length("x")]));
  servers.rehearsal.call("call", {});
  answer(1, true, {});
  clearTimeout(setTimeout(() => {}, 1));
  header[SETTLED] = 0;
  rehearseCompute();
}

// Resets the state after a rehearsal.
function forget() {
  for (const name of ["input", "paddock"]) delete global[name];
  delete NativeError.prototype.toJSON;
  delete BigIntOf.prototype.toJSON;
  apply(mapDelete, known, ["rehearsal"]);
  header[SETTLED] = 0;
  callCount = raced = inexact = 0;
  positions = null;
  timerCount = 0;
}

// The first two tasks, which the worker queues with mini-racer. The first returns the buffer. The second rejects a promise: the
// worker takes `turn` from the reason, in order to call it directly, and puts `post` there.
function meet() {
  if (header[OPERATION] !== MEET) {
    header[OPERATION] = MEET;
    return buffer;
  }
  const hands = create(null);
  hands[0] = turn;
  apply(reject, NativePromise, [hands]);
  header[OPERATION] = 0;
  post = hands[1];
}

// One task of the worker, which has put a message into the buffer, or the note that a timer is due.
function turn() {
  if (post === null) return meet();
  try {
    switch (header[IN_LENGTH]) {
      case IDLE: return undefined;
      case TIMER: return fire();
      case TAKE: return take();
      case FOLLOW: return follow(this);
    }
    const message = received();
    if (message[0] === "reply") {
      if (stepped) moveClock(message[4]);
      return header[SETTLED] !== 0 ? undefined : answer(message[1], message[2], message[3]);
    }
    if (message[0] === "time") return tick(message[1]);
    if (message[0] === "end") return end();
    if (message[0] === "stuck") return computing ? computed() : stuck();
    if (message[0] === "rehearse") return rehearse();
    if (message[0] === "forget") return forget();
    if (message[0] === "wake") return undefined;
    if (message[0] === "compute") {
      keepDigits(message[1].exact);
      return compute(message[1], global, NativeDate.prototype);
    }
    configure(message[1]);
  } catch (thrown) {
    settle("broken", stringify(cut(textOf(thrown), TEXT)));
  }
}
