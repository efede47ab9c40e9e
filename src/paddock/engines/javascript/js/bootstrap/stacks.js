// Stacks of compiled TypeScript as the program reads them, with positions in the user's text. V8 formats a stack at the first
// access, therefore errors whose stacks are not read cost nothing. For errors that leave the program, engines/javascript/source_map.py does
// the same; it gets the stack with positions in the running code.
let positions = null; // of compiled TypeScript: length of the wrapper's head, insertions, and source map
const stacks = new Places(); // by object with a stack: the stack that the program reads, and V8's
const [PREFIX, INSERTIONS, MAP] = [0, 1, 2];
const PLACE = /paddock:program:(\d+):(\d+)/g;

const formatStack = freeze((error, sites) => {
  let raw = "Error";
  try {
    raw = apply(errorText, error, []);
  } catch {
    // the program's own getter threw
  }
  for (let i = 0; i < sites.length; i++) raw += "\n    at " + StringOf(sites[i]);
  const seen = mapPlaces(raw);
  apply(placeSet, stacks, [error, { seen, raw }]);
  return seen;
});

function mapPlaces(stack) {
  let text = "";
  let from = 0;
  PLACE.lastIndex = 0;
  for (let found; (found = apply(exec, PLACE, [stack])) !== null; from = PLACE.lastIndex) {
    text += apply(slice, stack, [from, found.index]) + "paddock:program:" + locate(found[1] - 1, found[2] - 1);
  }
  return text + apply(slice, stack, [from]);
}

// Line and column in the user's text, from 1, of a row and a unit of the running code, from 0.
function locate(row, unit) {
  const insertions = positions[INSERTIONS];
  if (row === 0) unit -= positions[PREFIX];
  for (let i = 0; i < insertions.length; i++) {
    const start = insertions[i][1];
    if (insertions[i][0] === row && unit > start) unit = max(start, unit - insertions[i][2]);
  }
  const map = positions[MAP];
  let at = min(row, map.length - 1);
  let count = 0;
  while (count < map[at].length && map[at][count][0] <= unit) count++;
  while (count === 0 && at > 0) count = map[--at].length;
  return count === 0 ? "1:1" : map[at][count - 1][1] + 1 + ":" + (map[at][count - 1][2] + 1);
}

// The stack of an error, or of an object given to `captureStackTrace`, with positions in the running code.
function rawStack(holder) {
  const { stack } = holder;
  const kept = apply(placeGet, stacks, [holder]);
  return kept !== undefined && kept.seen === stack ? kept.raw : stack;
}
