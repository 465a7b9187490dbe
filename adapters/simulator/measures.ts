import type { Attempt } from "./attempt.js";
import { type AttemptOutcome, noRejections, type SimulatedRejection } from "./result.js";
import { SimulationError } from "./simulation-error.js";
import { SummaryRecorder } from "./summary.js";
import { TimeMean } from "./time-mean.js";

/** The most tenants that are told apart. */
export const MOST_TENANTS = 10_000;
const BATCHES = 20;

/** How often things have happened to the arrivals of one period. */
export class Tally {
  arrivals = 0;
  attempts = 0;
  retries = 0;
  waiting = 0;
  admitted = 0;
  refusedByLimiter = 0;
  leftLimiter = 0;
  inService = 0;
  refusedByServer = 0;
  leftServer = 0;
  completed = 0;
  delivered = 0;
  late = 0;
  errors = 0;
  gaveUp = 0;
}

/** How often things have happened to one tenant, in the measured period. */
export class TenantTally {
  arrivals = 0;
  delivered = 0;
  rejected = 0;
  late = 0;
  readonly latency: SummaryRecorder = new SummaryRecorder();
}

/** How often things have happened within the measured period, whoever they happened to. */
export class PeriodTally {
  attempts = 0;
  refused = 0;
  completed = 0;
  delivered = 0;
  late = 0;
}

/** Everything that is counted and measured in a run. */
export class Measures {
  readonly warmupMs: number;
  readonly durationMs: number;
  readonly warmup: Tally = new Tally();
  readonly measured: Tally = new Tally();
  readonly period: PeriodTally = new PeriodTally();
  readonly rejections: Record<SimulatedRejection, number> = noRejections();
  readonly delivered: SummaryRecorder = new SummaryRecorder();
  readonly completed: SummaryRecorder = new SummaryRecorder();
  readonly limiterWait: SummaryRecorder = new SummaryRecorder();
  readonly serverWait: SummaryRecorder = new SummaryRecorder();
  readonly rejection: SummaryRecorder = new SummaryRecorder();
  readonly tenants: Map<string, TenantTally> = new Map();
  readonly busyServers: TimeMean;
  /** As many as there are, or as are busy if that is more. */
  readonly servers: TimeMean;
  readonly permitsInUse: TimeMean;
  readonly limiterQueue: TimeMean;
  readonly atLimit: TimeMean;
  readonly limit: TimeMean;
  /** Attempts in the server, over the whole run. */
  readonly #inService: TimeMean = new TimeMean(0, Number.POSITIVE_INFINITY);
  /** Milliseconds that those attempts have spent there that are out. */
  #timeInService = 0;
  /** Milliseconds of work that the arrivals of the measured period have brought. */
  workMs = 0;
  usedMs = 0;
  wastedMs = 0;
  tenantsLeftOut = false;
  readonly #batchSums = new Float64Array(BATCHES);
  readonly #batchCounts = new Float64Array(BATCHES);

  constructor(warmupMs: number, durationMs: number, servers = 0) {
    this.warmupMs = warmupMs;
    this.durationMs = durationMs;
    const mean = (value = 0) => new TimeMean(warmupMs, durationMs, value);
    this.busyServers = mean();
    this.servers = mean(servers);
    this.permitsInUse = mean();
    this.limiterQueue = mean();
    this.atLimit = mean(Number.NaN);
    this.limit = mean(Number.NaN);
  }

  of(attempt: Attempt): Tally {
    return attempt.isMeasured ? this.measured : this.warmup;
  }

  /** The tally of a tenant; undefined when there are too many. */
  tenant(name: string): TenantTally | undefined {
    const known = this.tenants.get(name);
    if (known !== undefined) return known;
    if (this.tenants.size >= MOST_TENANTS) {
      this.tenantsLeftOut = true;
      return undefined;
    }
    const tally = new TenantTally();
    this.tenants.set(name, tally);
    return tally;
  }

  entersService(now: number): void {
    this.#inService.add(1, now);
  }

  leavesService(attempt: Attempt, now: number): void {
    this.#inService.add(-1, now);
    this.#timeInService += now - attempt.grantedAt;
  }

  begins(attempt: Attempt, now: number): void {
    const tally = this.of(attempt);
    tally.attempts += 1;
    tally.waiting += 1;
    if (attempt.number > 0) tally.retries += 1;
    if (now >= this.warmupMs && now < this.durationMs) this.period.attempts += 1;
  }

  refused(attempt: Attempt, reason: SimulatedRejection, now: number): void {
    if (now >= this.warmupMs && now < this.durationMs) this.period.refused += 1;
    if (!attempt.isMeasured) return;
    this.rejections[reason] = (this.rejections[reason] ?? 0) + 1;
    this.rejection.record(now - attempt.at);
    if (attempt.tenant !== undefined) attempt.tenant.rejected += 1;
  }

  finished(attempt: Attempt, outcome: AttemptOutcome, now: number): void {
    const latency = now - attempt.at;
    const tally = this.of(attempt);
    tally.completed += 1;
    if (outcome === "delivered") tally.delivered += 1;
    else if (outcome === "late") tally.late += 1;
    else tally.errors += 1;
    // Work that is finished right at the end was done before it, and so was what is finished right at the beginning.
    if ((now > this.warmupMs || this.warmupMs === 0) && now <= this.durationMs) {
      this.period.completed += 1;
      if (outcome === "delivered") this.period.delivered += 1;
      else if (outcome === "late") this.period.late += 1;
    }
    if (!attempt.isMeasured) return;
    this.completed.record(latency);
    this.serverWait.record(attempt.startedAt - attempt.grantedAt);
    this.usedMs += attempt.usedMs;
    const { tenant } = attempt;
    if (outcome === "late") {
      this.wastedMs += attempt.usedMs;
      if (tenant !== undefined) tenant.late += 1;
    } else if (outcome === "delivered") {
      this.delivered.record(latency);
      this.#batch(attempt.at, latency);
      if (tenant === undefined) return;
      tenant.delivered += 1;
      tenant.latency.record(latency);
    }
  }

  /** Brings all means up to the end of the run. */
  advance(now: number): void {
    const { busyServers, servers, permitsInUse, limiterQueue, atLimit, limit } = this;
    for (const mean of [busyServers, servers, permitsInUse, limiterQueue, atLimit, limit]) mean.advance(now);
  }

  /**
   * The half width of the 95 % interval of the mean response time, as a share of the mean, from the means of batches; undefined
   * when there is too little to tell.
   */
  get uncertainty(): number | undefined {
    const means: number[] = [];
    for (let i = 0; i < BATCHES; i++) {
      const count = this.#batchCounts[i] as number;
      if (count > 0) means.push((this.#batchSums[i] as number) / count);
    }
    if (means.length < BATCHES) return undefined;
    const mean = means.reduce((sum, value) => sum + value, 0) / BATCHES;
    const squares = means.reduce((sum, value) => sum + (value - mean) * (value - mean), 0);
    // Student's t for 19 degrees of freedom.
    return mean === 0 ? 0 : (2.093 * Math.sqrt(squares / (BATCHES - 1) / BATCHES)) / mean;
  }

  #batch(at: number, latency: number): void {
    const span = this.durationMs - this.warmupMs;
    const batch = Math.min(BATCHES - 1, Math.floor(((at - this.warmupMs) / span) * BATCHES));
    if (batch < 0) return;
    this.#batchSums[batch] = (this.#batchSums[batch] as number) + latency;
    this.#batchCounts[batch] = (this.#batchCounts[batch] as number) + 1;
  }

  /**
   * Checks what must be true of every run: everybody is somewhere exactly once, and as much time was spent in the server by
   * all as passed for those who were in it (Little's law).
   */
  check(now: number, inService: Iterable<Attempt>): void {
    for (const tally of [this.warmup, this.measured]) checkTally(tally, now);
    this.#inService.advance(now);
    let expected = this.#timeInService;
    for (const attempt of inService) expected += now - attempt.grantedAt;
    const error = Math.abs(this.#inService.area - expected);
    if (error > 1e-6 * Math.max(1, expected)) {
      throw new SimulationError(
        `time in service is ${this.#inService.area} ms by one count and ${expected} by another`,
        now,
      );
    }
  }
}

function checkTally(tally: Tally, now: number): void {
  const { attempts, waiting, admitted, refusedByLimiter, leftLimiter } = tally;
  const { inService, refusedByServer, leftServer, completed, delivered, late, errors, arrivals, retries } =
    tally;
  const laws = {
    attempts: attempts === admitted + refusedByLimiter + leftLimiter + waiting,
    admitted: admitted === completed + inService + refusedByServer + leftServer,
    completed: completed === delivered + late + errors,
    arrivals: arrivals === attempts - retries,
  };
  for (const [name, holds] of Object.entries(laws)) {
    if (!holds) throw new SimulationError(`the count of ${name} does not add up`, now);
  }
}
