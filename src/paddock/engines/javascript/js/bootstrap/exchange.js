// The buffer that both sides share: eight numbers, then outgoing text, then incoming text.
const CAPACITY = 32768;
const buffer = new ArrayBuffer(64 + 4 * CAPACITY);
const header = new Float64Array(buffer, 0, 8);
const outward = new Uint16Array(buffer, 64, CAPACITY);
const IN_OFFSET = 64 + 2 * CAPACITY;
const Units = Uint16Array;
const PIECE = 8192;
const [OPERATION, OUT_LENGTH, OUT_MORE, QUEUED, SETTLED, OPEN_CALLS, NEXT_DUE, IN_LENGTH] = [0, 1, 2, 3, 4, 5, 6, 7];
const [SEND, FILL, WAIT, HALT, CLOCK, RANDOM, LOAD] = [1, 2, 3, 4, 5, 8, 9]; // in OPERATION, when the bootstrap calls `post`
const [GATHER, MEET, GIVE] = [6, 7, 10]; // in OPERATION, when the bootstrap rejects a promise
const [IDLE, TIMER, TAKE, FOLLOW] = [-1, -2, -3, -4]; // in IN_LENGTH, when the worker requests something other than a message
header[NEXT_DUE] = Infinity;
let post = null; // calls the worker, which reads the header

// Never use a method of a typed array on the buffer: a program can replace `length`, and `subarray` passes the buffer to a
// constructor of the guest. Code that has the buffer can free the memory that the worker reads.
function isolated(view, length) {
  defineProperty(view, "length", { value: length });
  setPrototypeOf(view, null);
  return view;
}
for (const view of [header, outward]) isolated(view, view.length);

// Send a text to the worker at once, while other code runs.
function send(text) {
  const length = text.length;
  let start = 0;
  do {
    const count = min(length - start, CAPACITY);
    for (let i = 0; i < count; i++) outward[i] = unitAt(text, start + i);
    start += count;
    header[OUT_LENGTH] = count;
    header[OUT_MORE] = start < length ? 1 : 0;
    header[OPERATION] = SEND;
    post();
  } while (start < length);
}

// Milliseconds of a monotonic clock, which JavaScript does not have. A call takes some microseconds; therefore the value is
// reused until the wall clock has changed.
let wallThen = -1;
let told = 0;
function now() {
  if (stepped) return steppedNow();
  const wall = wallNow();
  if (wall === wallThen) return told;
  wallThen = wall;
  header[OPERATION] = CLOCK;
  post();
  return (told = header[OUT_LENGTH]);
}

// Send a text to the worker after the running task: much faster for large ones.
const queue = [];
let taken = 0;
function sendLater(text) {
  queue[queue.length] = text;
  header[QUEUED]++;
}
function take() {
  const next = queue[taken];
  queue[taken++] = "";
  header[QUEUED]--;
  return typeof next === "string" ? next : '["piece",' + stringify(next.piece) + "]";
}
// Sends a text of any length. A slice costs nothing, and its JSON is made when it is sent, so that no second copy exists.
const PIECE_OF_RESULT = 131072;
function sendPieces(text, most) {
  const length = min(PIECE_OF_RESULT, most);
  for (let at = 0; at < text.length; ) {
    let end = min(at + length, text.length);
    if (end < text.length && end - at > 1 && isHigh(unitAt(text, end - 1))) end--; // at whole characters
    sendLater({ piece: apply(slice, text, [at, end]) });
    at = end;
  }
}
const isHigh = (unit) => unit >= 0xd800 && unit <= 0xdbff;
const LATER = 16384;
function deliver(text) {
  if (text.length > LATER) sendLater(text);
  else send(text);
}

// The beginning of a message: a space if it may contain numbers that a double cannot hold.
const head = (kind) => (remembers ? ' ["' : '["') + kind + '",';

function receive() {
  let text = "";
  for (;;) {
    const length = header[IN_LENGTH];
    for (let k = 0; k < length; k += PIECE) {
      const count = min(PIECE, length - k);
      text += apply(fromCharCode, null, isolated(new Units(buffer, IN_OFFSET + 2 * k, count), count));
    }
    if (length < CAPACITY) return text;
    header[OPERATION] = FILL;
    post();
  }
}

// The next message; remembers numbers that a double cannot hold, and quoted strings.
function received() {
  const text = receive();
  if (!quoted && holds(text, PROMISE_TEXT)) quoted = true;
  const message = parse(text);
  const first = unitAt(text, 0);
  if (first === 91) return message;
  watchesTexts = true;
  if (first !== 32) return message;
  if (message[0] === "run" && !message[1].raw) message[1].input = parseExactly(text)[1].input;
  if (message[0] === "reply" && !rawResults) message[3] = parseExactly(text)[3];
  return message;
}
