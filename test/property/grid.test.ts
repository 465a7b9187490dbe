import { expect, test } from "vitest";
import { boundaryAt, lastBoundary } from "../../src/time/grid.js";
import { EFFORT, Random, SEED } from "./support.js";

const bits = new BigInt64Array(1);
const number = new Float64Array(bits.buffer);

/** The next number above (1) or below (-1) one that is not 0. */
function neighbour(value: number, direction: 1 | -1): number {
  if (value === 0) return direction * Number.MIN_VALUE;
  number[0] = value;
  bits[0] = (bits[0] as bigint) + BigInt(value > 0 ? direction : -direction);
  return number[0] as number;
}

function randomStart(random: Random): number {
  switch (random.below(6)) {
    case 0:
      return 0;
    case 1:
      return random.fraction() * 1e6; // performance.now() of a young process
    case 2:
      return Math.round(random.fraction() * 1e13) / 1e4; // the 0.1 µs steps of some hosts
    case 3:
      return random.fraction() * 1e10; // months of uptime
    case 4:
      return 1e12 + random.fraction() * 1e12; // a wall clock
    default:
      return Math.floor(1e12 + random.fraction() * 1e12);
  }
}

function randomWindow(random: Random): number {
  switch (random.below(4)) {
    case 0:
      return 1 + random.below(1000);
    case 1:
      return 1000 * (1 + random.below(86_400));
    case 2:
      return random.fraction() * 10_000 + 1;
    default:
      return random.magnitude(1000, 1e11) + random.fraction();
  }
}

function randomIndex(random: Random): number {
  return random.chance(0.5) ? random.below(3000) : random.magnitude(1, 1e9);
}

test("the last boundary is right, at a boundary and one ulp before and after it, for 1 to 1000 segments", () => {
  const random = new Random(SEED);
  let checks = 0;
  let floorDiffers = 0;
  let floorAtBoundary = 0;
  let boundaries = 0;
  const wrong: unknown[] = [];
  const check = (start: number, period: number, now: number): void => {
    const index = lastBoundary(start, period, now);
    checks += 1;
    const isRight =
      Number.isInteger(index) &&
      index >= 0 &&
      (index === 0 || boundaryAt(start, period, index) <= now) &&
      boundaryAt(start, period, index + 1) > now;
    if (!isRight) wrong.push({ start, period, now, index });
    if (Math.max(0, Math.floor((now - start) / period)) !== index) floorDiffers += 1;
  };
  for (let segments = 1; segments <= 1000; segments++) {
    for (let i = 0; i < 60 * EFFORT; i++) {
      const start = randomStart(random);
      const period = randomWindow(random) / segments;
      const index = randomIndex(random);
      const boundary = boundaryAt(start, period, index);
      boundaries += 1;
      if (Math.floor((boundary - start) / period) !== index) floorAtBoundary += 1;
      check(start, period, boundary);
      check(start, period, neighbour(boundary, 1));
      check(start, period, neighbour(boundary, -1));
      check(start, period, boundary + period * random.fraction());
      check(start, period, start - period * random.fraction() * 3);
    }
  }
  const share = ((100 * floorAtBoundary) / boundaries).toFixed(1);
  console.log(
    `grid: ${checks} checks, ${wrong.length} wrong; plain floor wrong at ${floorAtBoundary} of ${boundaries} boundaries (${share} %), ${floorDiffers} times in all`,
  );
  expect(wrong.slice(0, 5)).toEqual([]);
  // Why the quotient is only a guess.
  expect(floorAtBoundary).toBeGreaterThan(boundaries / 50);
});

test("time that goes on never brings an earlier boundary, whatever the numbers", () => {
  const random = new Random(SEED + 1);
  let checks = 0;
  const wrong: unknown[] = [];
  for (let i = 0; i < 20_000 * EFFORT; i++) {
    const start = randomStart(random);
    // Also periods that the clock cannot resolve, where several boundaries share a moment.
    const period = random.chance(0.5) ? 10 ** (random.fraction() * 16 - 8) : randomWindow(random);
    let now = start + period * randomIndex(random) * random.fraction();
    let last = lastBoundary(start, period, now);
    for (let step = 0; step < 10; step++) {
      now = random.chance(0.5) ? neighbour(now, 1) : now + period * random.fraction();
      const index = lastBoundary(start, period, now);
      checks += 1;
      if (!(index >= last) || boundaryAt(start, period, index) > now)
        wrong.push({ start, period, now, last, index });
      last = index;
    }
  }
  console.log(`grid, monotone: ${checks} checks, ${wrong.length} wrong`);
  expect(wrong.slice(0, 5)).toEqual([]);
});

test("it answers at once for numbers that no loop would ever get to the end of", () => {
  const answers = [
    lastBoundary(0, 1e-9, 1e15),
    lastBoundary(0, 1e-300, 1e5),
    lastBoundary(1e12, 1e-6, 1e13),
    lastBoundary(0, 1e300, Number.MAX_VALUE),
    lastBoundary(-1e15, 0.001, 1e15),
    lastBoundary(0, Number.MAX_VALUE, 1),
    lastBoundary(1e15, 1, -1e15),
  ];
  expect(answers.every((index) => Number.isFinite(index) && index >= 0)).toBe(true);
  expect(answers.slice(5)).toEqual([0, 0]);
});
