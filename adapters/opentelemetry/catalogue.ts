/*
 * All that is measured, in one place: names, kinds and units of the instruments, and the series that a limiter has. Docs and
 * tests are checked against this. A series is a place in a `Frame`; a limiter fills in those that it knows about.
 */

type Kind = "counter" | "updown" | "gauge" | "histogram";

/** What an instrument is made of. */
export interface InstrumentDefinition {
  readonly name: string;
  readonly kind: Kind;
  readonly unit: string;
  readonly description: string;
  /** Bounds of the buckets of a histogram. */
  readonly bounds?: readonly number[];
}

/** What one instrument says of one limiter, for one set of attributes. */
export interface SeriesDefinition {
  readonly instrument: number;
  readonly attributes: Readonly<Record<string, string | boolean>>;
  /** Whether its value never goes down. */
  readonly isMonotonic: boolean;
}

export const INSTRUMENTS: InstrumentDefinition[] = [];
export const SERIES: SeriesDefinition[] = [];

function instrument(
  kind: Kind,
  name: string,
  unit: string,
  description: string,
  bounds?: readonly number[],
): number {
  const definition = { kind, name: `headgate.${name}`, unit, description };
  return INSTRUMENTS.push(bounds === undefined ? definition : { ...definition, bounds }) - 1;
}

function series(instrument: number, attributes: SeriesDefinition["attributes"] = {}): number {
  return (
    SERIES.push({ instrument, attributes, isMonotonic: INSTRUMENTS[instrument]?.kind === "counter" }) - 1
  );
}

function seriesPer<Value extends string>(
  instrument: number,
  attribute: string,
  values: readonly Value[],
): Record<Value, number> {
  return Object.fromEntries(
    values.map((value) => [value, series(instrument, { [attribute]: value })]),
  ) as Record<Value, number>;
}

/** The bounds that stable conventions have for the duration of requests, in seconds. */
const DURATION_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Why requests are refused; a reason that is not one of these counts as `other`. */
export const REASONS = [
  "limit_reached",
  "queue_full",
  "queue_timeout",
  "queue_evicted",
  "deadline_unmet",
  "deadline_expired",
  "limiter_disposed",
  "codel",
  "partition_overflow",
  "share_exceeded",
  "server_pause",
  "store_unavailable",
  "priority_shed",
  "pressure",
  "client_unknown",
  "draining",
  "other",
] as const;
export const RESULTS = ["acquired", "rejected", "canceled", "bypassed"] as const;
export const WAIT_RESULTS = ["acquired", "rejected", "canceled"] as const;
export const OUTCOMES = ["success", "failure", "dropped", "ignored"] as const;

export type Reason = (typeof REASONS)[number];
export type WaitResult = (typeof WAIT_RESULTS)[number];
export type Outcome = (typeof OUTCOMES)[number];
type Level =
  | "active"
  | "leaseTime"
  | "limit"
  | "usage"
  | "available"
  | "queueLength"
  | "queueUsage"
  | "queueLimit";
type Other =
  | "saturation"
  | "baseline"
  | "windowRtt"
  | "allowance"
  | "gradient"
  | "codelDrops"
  | "codelDropping"
  | "partitions";

const RESULT = "headgate.limiter.result";
const OUTCOME = "headgate.lease.outcome";

const requests = instrument("counter", "limiter.requests", "{request}", "Requests that were answered.");
export const requestSeries: Record<(typeof RESULTS)[number], number> = seriesPer(requests, RESULT, RESULTS);

const rejections = instrument(
  "counter",
  "limiter.rejections",
  "{request}",
  "Requests that were shed, by reason.",
);
export const rejectionSeries: Record<Reason, number> = seriesPer(
  rejections,
  "headgate.rejection.reason",
  REASONS,
);

/** The series of a reason, which may be one that is not known here. */
export function rejectionSeriesOf(reason: string): number {
  return rejectionSeries[Object.hasOwn(rejectionSeries, reason) ? (reason as Reason) : "other"];
}

const completions = instrument(
  "counter",
  "limiter.lease.completions",
  "{lease}",
  "What became of admitted work.",
);
export const completionSeries: Record<Outcome, number> = seriesPer(completions, OUTCOME, OUTCOMES);

const active = instrument("updown", "limiter.lease.active", "{lease}", "Leases that are out.");
const leaseTime = instrument(
  "counter",
  "limiter.lease.time",
  "s",
  "For how long leases have been out, in total.",
);
const limit = instrument("updown", "limiter.permit.limit", "{permit}", "Permits there are, as of now.");
const usage = instrument("updown", "limiter.permit.usage", "{permit}", "Permits that are held.");
const available = instrument(
  "gauge",
  "limiter.permit.available",
  "{permit}",
  "Permits that could be taken now.",
);
const queueLength = instrument("updown", "limiter.queue.length", "{request}", "Requests that wait.");
const queueUsage = instrument(
  "updown",
  "limiter.queue.usage",
  "{permit}",
  "Permits that waiting requests ask for.",
);
const queueLimit = instrument("updown", "limiter.queue.limit", "{permit}", "Permits that may be waited for.");
export const levelSeries: Record<Level, number> = {
  active: series(active),
  leaseTime: series(leaseTime),
  limit: series(limit),
  usage: series(usage),
  available: series(available),
  queueLength: series(queueLength),
  queueUsage: series(queueUsage),
  queueLimit: series(queueLimit),
};

const waits = instrument(
  "counter",
  "limiter.queue.waits",
  "{request}",
  "Requests that have waited and wait no more.",
);
export const waitSeries: Record<WaitResult, number> = seriesPer(waits, RESULT, WAIT_RESULTS);
const waitTime = instrument(
  "counter",
  "limiter.queue.wait.time",
  "s",
  "For how long requests have waited, in total.",
);
export const waitTimeSeries: Record<WaitResult, number> = seriesPer(waitTime, RESULT, WAIT_RESULTS);
const waitDuration = instrument(
  "histogram",
  "limiter.queue.wait.duration",
  "s",
  "How long requests wait; a sample of them.",
  DURATION_BOUNDS,
);
export const waitDurationSeries: Record<WaitResult, number> = seriesPer(waitDuration, RESULT, WAIT_RESULTS);
const leaseDuration = instrument(
  "histogram",
  "limiter.lease.duration",
  "s",
  "How long leases are out; a sample of them.",
  DURATION_BOUNDS,
);
export const leaseDurationSeries: Record<Outcome, number> = seriesPer(leaseDuration, OUTCOME, OUTCOMES);

const saturation = instrument("counter", "limiter.saturation.time", "s", "For how long no permit was free.");
const shadow = instrument(
  "counter",
  "limiter.shadow.requests",
  "{request}",
  "What a limiter in shadow would have done.",
);
export const shadowSeries: Record<"would_refuse" | "would_wait", number> = seriesPer(
  shadow,
  "headgate.shadow.result",
  ["would_refuse", "would_wait"],
);
const deadline = instrument(
  "counter",
  "limiter.deadline.completions",
  "{lease}",
  "Work that ended while its caller still waited for it, or afterwards.",
);
export const deadlineSeries: Record<"met" | "missed", number> = {
  met: series(deadline, { "headgate.deadline.met": true }),
  missed: series(deadline, { "headgate.deadline.met": false }),
};

const baseline = instrument(
  "gauge",
  "adaptive.rtt.baseline",
  "s",
  "Round-trip time without queueing, as estimated.",
);
const windowRtt = instrument("gauge", "adaptive.rtt.window", "s", "Round-trip time of the last window.");
const allowance = instrument(
  "gauge",
  "adaptive.queue_allowance",
  "{permit}",
  "Permits added to probe for more.",
);
const gradient = instrument(
  "gauge",
  "adaptive.gradient",
  "1",
  "Ratio of the two round-trip times, as last used.",
);
const windows = instrument("counter", "adaptive.windows", "{window}", "Windows, by what was done with them.");
export const windowSeries: Record<"used" | "app_limited" | "underfilled" | "stale", number> = seriesPer(
  windows,
  "headgate.adaptive.decision",
  ["used", "app_limited", "underfilled", "stale"],
);

const codelDrops = instrument(
  "counter",
  "codel.drops",
  "{request}",
  "Items that a CoDel filter has dropped.",
);
const codelDropping = instrument(
  "updown",
  "codel.dropping",
  "{filter}",
  "CoDel filters that are dropping now.",
);
const partitions = instrument("updown", "partition.count", "{partition}", "Partitions there are.");
export const otherSeries: Record<Other, number> = {
  saturation: series(saturation),
  baseline: series(baseline),
  windowRtt: series(windowRtt),
  allowance: series(allowance),
  gradient: series(gradient),
  codelDrops: series(codelDrops),
  codelDropping: series(codelDropping),
  partitions: series(partitions),
};

/** What a limiter has told, by series. */
export class Frame {
  readonly values: Float64Array = new Float64Array(SERIES.length);
  readonly isPresent: Uint8Array = new Uint8Array(SERIES.length);

  add(series: number, value: number): void {
    this.values[series] = (this.values[series] as number) + value;
    this.isPresent[series] = 1;
  }

  /** Adds what another one has; only what never goes down, if asked so. */
  addAll(other: Frame, onlyMonotonic = false): void {
    for (const [index, { isMonotonic }] of SERIES.entries()) {
      if (other.isPresent[index] === 1 && (isMonotonic || !onlyMonotonic))
        this.add(index, other.values[index] as number);
    }
  }

  /** Takes from another one what this one does not tell. */
  addMissing(other: Frame): void {
    for (let index = 0; index < SERIES.length; index++) {
      if (other.isPresent[index] === 1 && this.isPresent[index] !== 1)
        this.add(index, other.values[index] as number);
    }
  }

  /** Takes off the totals that another one has. */
  subtractTotals(other: Frame): void {
    for (const [index, { isMonotonic }] of SERIES.entries()) {
      if (other.isPresent[index] === 1 && isMonotonic) this.add(index, -(other.values[index] as number));
    }
  }

  /** Says 0 for all that another one has and that can go down. */
  addZeros(other: Frame): void {
    for (const [index, { isMonotonic }] of SERIES.entries()) {
      if (other.isPresent[index] === 1 && !isMonotonic) this.add(index, 0);
    }
  }
}

/** What there is to tell, by label of the partitions; undefined is for what has none. */
export type Frames = Map<string | undefined, Frame>;

export function frameIn(frames: Frames, label: string | undefined): Frame {
  const known = frames.get(label);
  if (known !== undefined) return known;
  const frame = new Frame();
  frames.set(label, frame);
  return frame;
}
