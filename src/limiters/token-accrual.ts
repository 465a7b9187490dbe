/** How finely time is divided: one tick is a microsecond. */
const TICKS_PER_MS = 1000;

/** Longer periods than this are all the same: never. It keeps every number finite. */
const LONGEST_PERIOD_TICKS = 2 ** 200;

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/*
 * Tokens that accrue in proportion to time, without a rounding error.
 *
 * The naive answer keeps the tokens as a fraction and adds elapsed / period at every look. At one token a second, ten
 * looks 100 ms apart then make 0.9999999999999999 tokens, and somebody who waited exactly as told is refused.
 *
 * So time is counted in whole microseconds since the limiter was made, and the rate as a reduced ratio of whole numbers: 7
 * tokens per 1300 ms are 7 tokens per 1 300 000 ticks. What has accrued beyond whole tokens is kept as `part`, in units of
 * 1/denominator token. Nothing is ever divided with a remainder lost. Looks between two tokens change nothing at all, so
 * that somebody who looks every microsecond gets exactly as much as somebody who looks once.
 *
 * Products beyond 2^53 (a limit of 10^9 tokens with a period of a month, say) are worked out with BigInt.
 */
export class TokenAccrual {
  /** Tokens per `denominator` ticks. */
  readonly #numerator: number;
  readonly #denominator: number;
  /** The tick up to which tokens have been counted, and the part of the next token that was there then. */
  #tick = 0;
  #part = 0;
  /** The tick at which `earn` last reached all that was missing. */
  fullTick = 0;

  constructor(tokensPerPeriod: number, periodMs: number) {
    const periodTicks = Math.min(Math.max(1, Math.round(periodMs * TICKS_PER_MS)), LONGEST_PERIOD_TICKS);
    const divisor = greatestCommonDivisor(periodTicks, tokensPerPeriod);
    this.#numerator = tokensPerPeriod / divisor;
    this.#denominator = periodTicks / divisor;
  }

  /** The tick of a moment. A grace of a nanosecond, or what the clock can tell apart, takes care of binary fractions. */
  static tickAt(now: number, start: number): number {
    const grace = 0.001 + Math.abs(now) * (Number.EPSILON * TICKS_PER_MS);
    return Math.floor((now - start) * TICKS_PER_MS + grace);
  }

  /** The moment of a tick, in milliseconds after the start. */
  static msAt(tick: number): number {
    return tick / TICKS_PER_MS;
  }

  /** Lets time pass for which nothing is earned, since the bucket is full. */
  rest(tick: number): void {
    if (tick > this.#tick) this.#tick = tick;
    this.#part = 0;
  }

  /** The whole tokens that have accrued up to a tick, at most as many as are missing; they count as handed out. */
  earn(tick: number, missing: number): number {
    const elapsed = tick - this.#tick;
    const gain = elapsed * this.#numerator + this.#part;
    const isExact = gain <= Number.MAX_SAFE_INTEGER;
    if (isExact && gain < this.#denominator) return 0;
    const tokens = isExact ? wholeQuotient(gain, this.#denominator) : this.#earnExactly(elapsed, missing);
    if (tokens >= missing) {
      this.fullTick = this.tickFor(missing);
      this.rest(tick);
      return missing;
    }
    if (isExact) this.#part = gain % this.#denominator;
    this.#tick = tick;
    return tokens;
  }

  /** The tick at which so many more tokens (at least 1) will have accrued. */
  tickFor(tokens: number): number {
    const wanted = tokens * this.#denominator;
    if (wanted <= Number.MAX_SAFE_INTEGER) {
      const left = wanted - this.#part;
      const rest = left % this.#numerator;
      const tick = this.#tick + (left - rest) / this.#numerator + (rest > 0 ? 1 : 0);
      if (tick <= Number.MAX_SAFE_INTEGER) return tick;
    }
    const numerator = BigInt(this.#numerator);
    const left = BigInt(tokens) * BigInt(this.#denominator) - BigInt(this.#part);
    return roundUp(BigInt(this.#tick) + (left + numerator - 1n) / numerator);
  }

  #earnExactly(elapsed: number, missing: number): number {
    const denominator = BigInt(this.#denominator);
    const gain = BigInt(elapsed) * BigInt(this.#numerator) + BigInt(this.#part);
    const tokens = gain / denominator;
    if (tokens >= BigInt(missing)) return missing;
    this.#part = Number(gain % denominator);
    return Number(tokens);
  }
}

/** The floor of a quotient of whole numbers; `Math.floor(a / b)` may be one too many. */
function wholeQuotient(a: number, b: number): number {
  return (a - (a % b)) / b;
}

/** The nearest number that is not below. */
function roundUp(value: bigint): number {
  const number = Number(value);
  return BigInt(number) < value ? number * (1 + Number.EPSILON) : number;
}
