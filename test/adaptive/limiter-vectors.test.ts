import { readFileSync } from "node:fs";
import type { RateLimiter, RateLimitLease } from "headgate";
import {
  AdaptiveConcurrencyLimiter,
  AimdLimit,
  FixedLimit,
  type Limit,
  SettableLimit,
} from "headgate/adaptive";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, type Watched, watch } from "../support.js";

interface State {
  readonly limit: number;
  readonly inflight: number;
  readonly queued: number;
  readonly counters: Record<"success" | "dropped" | "ignored" | "rejected" | "bypassed", number>;
  readonly partitions?: Record<string, { readonly limit: number; readonly busy: number }>;
  readonly delayed?: number;
}

interface Step {
  readonly op: "acquire" | "complete" | "advance" | "setLimit" | "cancel";
  readonly id: string;
  readonly ctx?: string;
  readonly n?: number;
  readonly sync?: boolean;
  readonly timeout?: number;
  readonly verdict?: "succeed" | "drop" | "ignore" | "dispose";
  readonly ms: number;
  readonly value: number;
  readonly result?: unknown;
  readonly settled?: Record<string, string>;
  readonly after: State;
}

interface VectorOptions {
  readonly queueLimit?: number;
  readonly queueOrder?: "newestFirst";
  readonly queueTimeout?: number;
  readonly maxDelayed?: number;
  readonly bypass?: readonly string[];
  readonly partitions?: Record<string, { readonly share: number; readonly rejectDelay?: number }>;
}

interface Case {
  readonly name: string;
  readonly limit: { readonly kind: "fixed" | "settable" | "aimd"; readonly options: Record<string, number> };
  readonly options: VectorOptions;
  readonly ops: readonly Step[];
  readonly samples: readonly { start: number; rtt: number; inflight: number; didDrop: boolean }[];
  readonly changes?: readonly number[];
}

function read(name: string): readonly Case[] {
  const text = readFileSync(new URL(`vectors/${name}.json`, import.meta.url), "utf8");
  return (JSON.parse(text) as { cases: readonly Case[] }).cases;
}

/** The queue of this library drops the oldest when it is full and serves the newest first; this case says otherwise. */
const OTHER_RULE = "backlog full rejects the newest at once";

const SETTLED_AS: Record<string, string> = {
  queue_timeout: "timeout",
  queue_evicted: "evicted",
  limit_reached: "rejected",
  queue_full: "rejected",
  share_exceeded: "rejected",
};

function makeLimit({ kind, options }: Case["limit"]): Limit {
  if (kind === "aimd") return new AimdLimit(options);
  const limit = options["limit"] as number;
  return kind === "fixed" ? new FixedLimit(limit) : new SettableLimit(limit);
}

class Player {
  readonly #clock = new ManualClock();
  readonly #limit: Limit;
  readonly #limiter: AdaptiveConcurrencyLimiter;
  readonly #options: VectorOptions;
  readonly #leases = new Map<string, RateLimitLease>();
  readonly #waiting = new Map<string, Watched<RateLimitLease>>();
  readonly #controllers = new Map<string, AbortController>();
  readonly samples: Case["samples"][number][] = [];
  readonly changes: number[] = [];

  constructor({ limit, options }: Case) {
    this.#options = options;
    this.#limit = makeLimit(limit);
    const onSample = this.#limit.onSample.bind(this.#limit);
    this.#limit.onSample = (start, rtt, inflight, outcome, running) => {
      this.samples.push({ start, rtt, inflight, didDrop: outcome === "dropped" });
      onSample(start, rtt, inflight, outcome, running);
    };
    this.#limit.onChange((now) => this.changes.push(now));
    const shares = Object.entries(options.partitions ?? {}).map(
      ([name, { share, rejectDelay }]) => [name, { share, rejectDelayMs: rejectDelay }] as const,
    );
    this.#limiter = new AdaptiveConcurrencyLimiter({
      limit: this.#limit,
      clock: this.#clock,
      queueLimit: options.queueLimit,
      queueProcessingOrder: options.queueOrder,
      queueTimeoutMs: options.queueTimeout,
      maxDelayed: options.maxDelayed,
      shares: Object.fromEntries(shares),
    });
  }

  async play(step: Step): Promise<void> {
    const before = new Set(this.#waiting.keys());
    const delayedBefore = this.#limiter.getStatistics().delayed;
    const bypassedBefore = this.#limiter.getStatistics().bypassed;
    const answer = this.#do(step);
    const asked = answer instanceof Promise ? watch(answer) : undefined;
    await flush();
    if (step.op === "acquire") {
      const { delayed, bypassed } = this.#limiter.getStatistics();
      let result: string;
      if (asked?.state === "pending") {
        this.#waiting.set(step.id, asked);
        result = delayed > delayedBefore ? "delayed" : "queued";
      } else {
        result = this.#keep(step.id, asked?.value ?? (answer as RateLimitLease));
        if (bypassed > bypassedBefore) result = "bypassed";
      }
      expect(result).toBe(step.result);
    }
    const settled: Record<string, string> = {};
    for (const id of before) {
      const waiting = this.#waiting.get(id);
      if (waiting === undefined || waiting.state === "pending") continue;
      this.#waiting.delete(id);
      settled[id] = waiting.state === "rejected" ? "cancelled" : this.#keep(id, waiting.value);
    }
    expect(settled).toEqual(step.settled ?? {});
    expect(this.#state(step.after)).toEqual(step.after);
  }

  #do(step: Step): RateLimitLease | Promise<RateLimitLease> | undefined {
    switch (step.op) {
      case "advance":
        this.#clock.advance(step.ms);
        return undefined;
      case "setLimit":
        (this.#limit as SettableLimit).setLimit(step.value);
        return undefined;
      case "cancel":
        this.#controllers.get(step.id)?.abort();
        return undefined;
      case "complete": {
        const lease = this.#leases.get(step.id);
        if (step.verdict === "succeed") lease?.report("success");
        if (step.verdict === "drop") lease?.report("dropped");
        lease?.dispose();
        return undefined;
      }
      case "acquire": {
        const limiter = this.#limiterFor(step.ctx);
        // A request for no permits waits until one is free, as in .NET; the vectors mean one that asks whether one is.
        if (step.sync === true || step.n === 0) return limiter.attemptAcquire(step.n);
        const controller = new AbortController();
        this.#controllers.set(step.id, controller);
        return limiter.acquire(step.n, { signal: controller.signal, maxWaitMs: step.timeout });
      }
    }
  }

  #limiterFor(context: string | undefined): RateLimiter {
    if (context !== undefined && this.#options.bypass?.includes(context) === true) {
      return this.#limiter.forBypass();
    }
    return context === undefined ? this.#limiter : this.#limiter.forShare(context);
  }

  #keep(id: string, lease: RateLimitLease): string {
    if (lease.isAcquired) this.#leases.set(id, lease);
    return lease.isAcquired ? "granted" : (SETTLED_AS[String(lease.reason)] ?? String(lease.reason));
  }

  #state(like: State): State {
    const statistics = this.#limiter.getStatistics();
    const shares = [...statistics.shares].map(
      ([name, { permitLimit, inFlight }]) => [name, { limit: permitLimit, busy: inFlight }] as const,
    );
    return {
      limit: statistics.permitLimit,
      inflight: statistics.inFlight,
      queued: statistics.currentQueuedCount,
      counters: {
        success: statistics.succeeded,
        dropped: statistics.dropped,
        ignored: statistics.ignored,
        rejected: statistics.totalFailedLeases,
        bypassed: statistics.bypassed,
      },
      ...(like.partitions === undefined ? {} : { partitions: Object.fromEntries(shares) }),
      ...(like.delayed === undefined ? {} : { delayed: statistics.delayed }),
    };
  }
}

for (const file of ["limiter", "partitioned", "queue"]) {
  describe(`the ${file} vectors`, () => {
    for (const vector of read(file)) {
      if (vector.name === OTHER_RULE) continue;
      it(vector.name, async () => {
        const player = new Player(vector);
        for (const step of vector.ops) await player.play(step);
        expect(player.samples).toEqual(vector.samples);
        if (vector.changes !== undefined) expect(player.changes).toEqual(vector.changes);
      });
    }
  });
}

it("leaves out one case, in which a full queue that serves the newest first refuses the newest", () => {
  const names = read("queue").map((vector) => vector.name);
  expect(names).toContain(OTHER_RULE);
  expect(names.some((name) => name.includes("evictOldest"))).toBe(true);
});
