// performance: milliseconds since the program began, by the clock of timers.
let beganAt = 0; // by the wall clock, which is cheap to read
let origin = -1;
class Performance extends EventTarget {
  constructor(key) {
    if (key !== MAKING) throw new NativeTypeError("Illegal constructor");
    super();
  }
  now() {
    if (origin < 0) origin = now() - max(0, wallNow() - beganAt);
    return max(0, now() - origin);
  }
  get timeOrigin() { return beganAt; }
  toJSON() { return { timeOrigin: beganAt }; }
}
tagged(Performance, "Performance");
const performance = new Performance(MAKING);
