import type { AttributeValue, Meter } from "@opentelemetry/api";
import { PartitionedRateLimiter, RateLimiter, type ReplenishingRateLimiter } from "headgate";
import { checkBoolean, checkMethods, checkOptionNames, wrongType } from "../../src/internal.js";
import { Attachment } from "./attachment.js";
import { counted } from "./counted-limiter.js";
import { Counters } from "./counters.js";
import { Entry } from "./measured.js";
import type { Instrumentable, InstrumentOptions, LimiterInstrumentation, TracingOptions } from "./options.js";
import { PartitionReader } from "./partition-reader.js";
import { readerOf } from "./readers.js";
import { WaitTracing } from "./wait-tracing.js";

const OPTION_NAMES = ["name", "meter", "attributes", "partitions", "wrap", "tracing"];
const METER_METHODS = ["createObservableCounter", "addBatchObservableCallback"];

/**
 * Measures a limiter with OpenTelemetry: how many requests it grants and refuses, how many wait, how much is free, what an
 * adaptive limiter goes by.
 *
 * The limiter counts anyway, refusals by reason, and its numbers are read when somebody collects: nothing is called when a request comes, is
 * refused, or ends. With `wrap` more is counted, in front of the limiter: how long requests waited, what
 * became of the work, for how long the limit was reached.
 *
 * Until an SDK is registered there is no meter that does something. The handle then looks for one again when another limiter
 * is instrumented, and after 1 ms, 1 s, 5 s and 30 s; after that `attach()` does it. What was counted meanwhile is not lost.
 *
 * It keeps neither limiter nor process alive. A limiter that is disposed or collected ends its series.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { instrumentRateLimiter } from "headgate/opentelemetry";
 *
 * const limiter = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 100 });
 * using _metrics = instrumentRateLimiter(limiter, { name: "vendor" });
 * ```
 *
 * @param limiter - A limiter, a partitioned limiter, or something else that tells statistics.
 * @param options - Its name, and how to measure it.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function instrumentRateLimiter(
  limiter: ReplenishingRateLimiter,
  options: InstrumentOptions & { readonly wrap: true },
): LimiterInstrumentation<ReplenishingRateLimiter>;
/**
 * The same for every other limiter that is counted in front.
 *
 * @public
 */
export function instrumentRateLimiter(
  limiter: RateLimiter,
  options: InstrumentOptions & { readonly wrap: true },
): LimiterInstrumentation<RateLimiter>;
/**
 * The same with the limiter's own counts.
 *
 * @public
 */
export function instrumentRateLimiter<Limiter extends Instrumentable>(
  limiter: Limiter,
  options: InstrumentOptions & { readonly wrap?: false | undefined },
): LimiterInstrumentation<Limiter>;
/**
 * The same for a limiter of which it is known only when it runs whether it is counted in front.
 *
 * @public
 */
export function instrumentRateLimiter(
  limiter: RateLimiter,
  options: InstrumentOptions,
): LimiterInstrumentation<RateLimiter>;
export function instrumentRateLimiter(
  limiter: Instrumentable,
  options: InstrumentOptions,
): LimiterInstrumentation<Instrumentable> {
  checkOptionNames(options, OPTION_NAMES);
  const { name, meter, attributes = {}, partitions, wrap = false, tracing = false } = options;
  if (typeof name !== "string" || name.length < 1 || name.length > 64) {
    throw wrongType("options.name", "a string of 1 to 64 characters", name);
  }
  if (meter !== undefined) checkMethods("options.meter", meter, METER_METHODS);
  checkAttributes(attributes);
  checkBoolean("options.wrap", wrap);
  if (tracing !== false && !wrap)
    throw new TypeError("options.tracing needs options.wrap: waits are seen in front of the limiter.");
  if (wrap && !(limiter instanceof RateLimiter)) {
    throw wrongType("limiter", "a RateLimiter with options.wrap", limiter);
  }
  const isKeyed = limiter instanceof PartitionedRateLimiter && "getTotals" in limiter;
  if (partitions !== undefined && !isKeyed) {
    throw wrongType("limiter", "made by PartitionedRateLimiter.create with options.partitions", limiter);
  }
  if (typeof limiter !== "object" || limiter === null) throw wrongType("limiter", "a limiter", limiter);
  const reader = isKeyed ? new PartitionReader(partitions) : readerOf(limiter);
  const all = { ...attributes, "headgate.limiter.name": name, "headgate.limiter.type": reader.type };
  let target = limiter;
  let counters: Counters | undefined;
  let spans: WaitTracing | undefined;
  if (wrap && limiter instanceof RateLimiter) {
    counters = new Counters(limiter);
    spans = tracingOf(tracing, name, reader.type);
    target = counted(limiter, counters, spans);
  }
  const entry = new Entry(limiter, reader, counters, all);
  return new Instrumentation(target, new Attachment(entry, meter), spans);
}

function checkAttributes(attributes: unknown): void {
  if (typeof attributes !== "object" || attributes === null || Array.isArray(attributes)) {
    throw wrongType("options.attributes", "an object", attributes);
  }
  const entries = Object.entries(attributes as Record<string, AttributeValue>);
  if (entries.length > 8)
    throw new RangeError(`options.attributes must have at most 8 names; got ${entries.length}.`);
  for (const [key, value] of entries) {
    if (["string", "number", "boolean"].includes(typeof value)) continue;
    throw wrongType(
      `options.attributes[${JSON.stringify(key.slice(0, 40))}]`,
      "a string, number or boolean",
      value,
    );
  }
}

function tracingOf(tracing: boolean | TracingOptions, name: string, type: string): WaitTracing | undefined {
  if (tracing === false) return undefined;
  if (tracing !== true && (typeof tracing !== "object" || tracing === null)) {
    throw wrongType("options.tracing", "true, false or an object", tracing);
  }
  return new WaitTracing(tracing === true ? {} : tracing, name, type);
}

class Instrumentation implements LimiterInstrumentation<Instrumentable> {
  readonly limiter: Instrumentable;
  readonly #attachment: Attachment;
  readonly #tracing: WaitTracing | undefined;

  constructor(limiter: Instrumentable, attachment: Attachment, tracing: WaitTracing | undefined) {
    this.#tracing = tracing;
    this.limiter = limiter;
    this.#attachment = attachment;
  }

  get isAttached(): boolean {
    return this.#attachment.isAttached;
  }

  attach(meter?: Meter): boolean {
    if (meter !== undefined) checkMethods("meter", meter, METER_METHODS);
    return this.#attachment.attach(meter);
  }

  dispose(): void {
    this.#attachment.end();
    this.#tracing?.stop();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
