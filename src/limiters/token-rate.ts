/** How finely time is divided: one tick is a microsecond. */
const TICKS_PER_MS = 1000;

/** A nanosecond: what a binary fraction may be off. */
const GRACE_TICKS = 0.001;

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
 * So time is counted in whole microseconds since the limiter was made (a period is rounded up to one, so that the rate is
 * never above what was asked for), and the rate as a reduced ratio of whole numbers: 7
 * tokens per 1300 ms are 7 tokens per 1 300 000 ticks. What has accrued beyond whole tokens is kept as a part, in units of
 * 1/denominator token. Nothing is ever divided with a remainder lost. Looks between two tokens change nothing at all, so
 * that somebody who looks every microsecond gets exactly as much as somebody who looks once.
 *
 * Products beyond 2^53 (a limit of 10^9 tokens with a period of a month, say) are worked out with BigInt.
 */
export class TokenRate {
  /** Tokens per `denominator` ticks. */
  readonly #numerator: number;
  readonly #denominator: number;

  constructor(tokensPerPeriod: number, periodMs: number) {
    const periodTicks = Math.min(
      Math.max(1, Math.ceil(periodMs * TICKS_PER_MS - GRACE_TICKS)),
      LONGEST_PERIOD_TICKS,
    );
    const divisor = greatestCommonDivisor(periodTicks, tokensPerPeriod);
    this.#numerator = tokensPerPeriod / divisor;
    this.#denominator = periodTicks / divisor;
  }

  /** The tick of a moment. A grace of a nanosecond, or what the clock can tell apart, takes care of binary fractions. */
  static tickAt(now: number, start: number): number {
    const grace = GRACE_TICKS + Math.abs(now) * (Number.EPSILON * TICKS_PER_MS);
    return Math.floor((now - start) * TICKS_PER_MS + grace);
  }

  /** The moment of a tick, in milliseconds after the start. */
  static msAt(tick: number): number {
    return tick / TICKS_PER_MS;
  }

  /** The whole tokens that accrue in so many ticks on top of a part. */
  tokensIn(elapsed: number, part: number): number {
    const gain = elapsed * this.#numerator + part;
    if (gain > Number.MAX_SAFE_INTEGER)
      return Number(this.#exactGain(elapsed, part) / BigInt(this.#denominator));
    return gain < this.#denominator ? 0 : quotientDown(gain, this.#denominator);
  }

  /** The part that is left over beside those. */
  partAfter(elapsed: number, part: number): number {
    const gain = elapsed * this.#numerator + part;
    if (gain > Number.MAX_SAFE_INTEGER)
      return Number(this.#exactGain(elapsed, part) % BigInt(this.#denominator));
    return gain - quotientDown(gain, this.#denominator) * this.#denominator;
  }

  /** The tick at which so many more tokens (at least 1) will be there than at a certain tick, when a part was. */
  tickFor(tokens: number, tick: number, part: number): number {
    const wanted = tokens * this.#denominator;
    if (wanted <= Number.MAX_SAFE_INTEGER) {
      const due = tick + quotientUp(wanted - part, this.#numerator);
      if (due <= Number.MAX_SAFE_INTEGER) return due;
    }
    const numerator = BigInt(this.#numerator);
    const left = BigInt(tokens) * BigInt(this.#denominator) - BigInt(part);
    return roundUp(BigInt(tick) + (left + numerator - 1n) / numerator);
  }

  #exactGain(elapsed: number, part: number): bigint {
    return BigInt(elapsed) * BigInt(this.#numerator) + BigInt(part);
  }
}

/*
 * Quotients of whole numbers up to 2^53. The division rounds to the nearest float, so its floor may be one too many and its
 * ceiling one too few; multiplying back tells. A remainder would tell as well, but V8 has the C library work out those of
 * floats, which costs more than all the rest of a look.
 */
function quotientDown(a: number, b: number): number {
  const quotient = Math.floor(a / b);
  return quotient * b > a ? quotient - 1 : quotient;
}

function quotientUp(a: number, b: number): number {
  const quotient = Math.ceil(a / b);
  return quotient * b < a ? quotient + 1 : quotient;
}

/** The nearest number that is not below. */
function roundUp(value: bigint): number {
  const number = Number(value);
  return BigInt(number) < value ? number * (1 + Number.EPSILON) : number;
}
