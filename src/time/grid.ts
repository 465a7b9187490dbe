/**
 * A grid of moments, `start + k * period`, along which permits come back. One expression says where a boundary is, here
 * and nowhere else, so that what one call promises ("again at 300 ms") another one keeps.
 */
export function boundaryAt(start: number, period: number, index: number): number {
  return start + index * period;
}

/**
 * The number of the last boundary at or before `now`; 0 before the start.
 *
 * The floor of a quotient alone is often wrong: with 0.1 ms periods from 0, the boundary 3 is at 0.30000000000000004, and
 * 0.3 / 0.1 is 2.9999999999999996. So the quotient is a guess, at most one off, and comparing with the boundaries
 * themselves decides.
 */
export function lastBoundary(start: number, period: number, now: number): number {
  const guess = Math.min(Math.max(0, Math.floor((now - start) / period)), Number.MAX_SAFE_INTEGER);
  if (boundaryAt(start, period, guess + 1) <= now) return guess + 1;
  if (guess > 0 && boundaryAt(start, period, guess) > now) return guess - 1;
  return guess;
}

/** How long to wait at `now` for a moment: never so little that adding it to `now` falls short by a rounding. */
export function waitFor(moment: number, now: number): number {
  const wait = moment - now;
  if (wait <= 0) return 0;
  const short = moment - (now + wait);
  return short > 0 ? wait + short : wait;
}
