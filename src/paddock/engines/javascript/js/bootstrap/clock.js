// A clock that the host moves, for runs that are recorded or repeated: such a program depends only on its seeds and on the
// messages that it receives. Each reading moves the clock by a microsecond, so that a loop that waits for a later time ends.
const READING_MS = 0.001;
let stepped = false;
let clock = 0; // milliseconds since the program began
let instant = 0; // the wall time then
let entropy = null; // 32 bytes from which the random bytes of `crypto` are derived
let blocks = 0; // of random bytes so far
function steppedNow() {
  return (clock += READING_MS);
}
function steppedWall() {
  return floor(instant + steppedNow());
}
function moveClock(to) {
  if (to > clock) clock = to;
}

// A timer is due, perhaps: the host has moved the clock.
function tick(to) {
  moveClock(to);
  fire();
}

function deriveBytes(bytes, count) {
  const { sha256 } = library("hashes");
  const block = new Bytes(36);
  for (let i = 0; i < 32; i++) block[i] = entropy[i];
  for (let at = 0; at < count; blocks++) {
    for (let i = 0; i < 4; i++) block[32 + i] = blocks >>> (8 * i);
    const hash = sha256(block);
    for (let i = 0; i < 32 && at < count; i++) bytes[at++] = hash[i];
  }
}

// Replaces everything that reveals the present time.
function stepClock(given) {
  stepped = true;
  instant = given.instant;
  entropy = given.entropy;
  beganAt = instant;
  origin = 0;
  const date = steppedDate(steppedWall);
  provide("Date", date);
  provide("constructor", date, NativeDate.prototype);
  const { DateTimeFormat } = Intl;
  const { prototype } = DateTimeFormat;
  const format = getterOf(prototype, "format");
  const parts = prototype.formatToParts;
  const present = (given) => (given === undefined ? steppedWall() : given);
  const own = {
    get format() {
      const formatted = apply(format, this, []);
      return (date) => formatted(present(date));
    },
    formatToParts(date) { return apply(parts, this, [present(date)]); },
  };
  defineProperty(prototype, "format", { get: getterOf(own, "format"), configurable: true, enumerable: false });
  provide("formatToParts", own.formatToParts, prototype);
  if (typeof Temporal === "object") stepTemporal(Temporal);
}
function stepTemporal({ Now, Instant }) {
  const { timeZoneId } = Now;
  const { fromEpochMilliseconds } = Instant;
  const { instant, zonedDateTimeISO, plainDateTimeISO, plainDateISO, plainTimeISO } = {
    instant() { return apply(fromEpochMilliseconds, Instant, [steppedWall()]); },
    zonedDateTimeISO(zone = timeZoneId()) { return instant().toZonedDateTimeISO(zone); },
    plainDateTimeISO(zone) { return zonedDateTimeISO(zone).toPlainDateTime(); },
    plainDateISO(zone) { return zonedDateTimeISO(zone).toPlainDate(); },
    plainTimeISO(zone) { return zonedDateTimeISO(zone).toPlainTime(); },
  };
  for (const each of [instant, zonedDateTimeISO, plainDateTimeISO, plainDateISO, plainTimeISO]) provide(each.name, each, Now);
}
