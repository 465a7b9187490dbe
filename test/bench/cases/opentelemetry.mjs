import { AggregationTemporality, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { ConcurrencyLimiter } from "headgate";
import { instrumentRateLimiter } from "headgate/opentelemetry";
import { visibleSlots } from "../harness.mjs";

class Reader extends MetricReader {
  async onForceFlush() {}
  async onShutdown() {}
}

const reader = new Reader({ aggregationTemporalitySelector: () => AggregationTemporality.CUMULATIVE });
const meter = new MeterProvider({ readers: [reader] }).getMeter("headgate");

const free = () => new ConcurrencyLimiter({ permitLimit: 10 });
const full = () => {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
  limiter.attemptAcquire();
  return limiter;
};
const instrumented = (limiter, name, wrap = false) =>
  instrumentRateLimiter(limiter, { name, meter, wrap }).limiter;

function attempt(n, limiter) {
  const slots = visibleSlots();
  let done = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    slots[i & 3].dispose();
    done += 1;
  }
  return done;
}

const side = (label, limiter, note) => ({ label, note, prepare: () => limiter, run: attempt });

export const cases = [
  {
    name: "instrumented: attempt and dispose",
    n: 200_000,
    ours: side("instrumented", instrumented(free(), "free")),
    peer: side("not instrumented", free()),
    beside: [side("wrap", instrumented(free(), "free in front", true), "counted in front")],
    target: { ratio: 1.1 },
  },
  {
    name: "instrumented: refusal",
    n: 200_000,
    ours: side("instrumented", instrumented(full(), "full")),
    peer: side("not instrumented", full()),
    beside: [side("wrap", instrumented(full(), "full in front", true), "counted in front")],
    target: { ratio: 1.1 },
  },
];
