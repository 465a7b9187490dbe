import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Context,
  type ContextManager,
  context,
  diag,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { ConcurrencyLimiter, type RateLimiter } from "headgate";
import { instrumentRateLimiter, type TracingOptions } from "headgate/opentelemetry";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { measured } from "./support.js";

/** The context of the SDK for Node, in miniature. */
class Contexts implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();
  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }
  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    to: Context,
    fn: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(to, () => fn.apply(self as never, args));
  }
  bind<T>(_to: Context, target: T): T {
    return target;
  }
  enable(): this {
    return this;
  }
  disable(): this {
    return this;
  }
}

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const tracer = provider.getTracer("test");
beforeAll(() => {
  context.setGlobalContextManager(new Contexts());
  trace.setGlobalTracerProvider(provider);
});
afterAll(() => {
  context.disable();
  trace.disable();
});

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Runs something in a span, and tells the spans that it made besides. */
async function spansOf(
  action: (limiter: RateLimiter) => Promise<unknown>,
  tracing: boolean | TracingOptions = true,
  queueTimeoutMs?: number,
) {
  const { limiter } = instrumentRateLimiter(
    new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, queueTimeoutMs }),
    { name: "db", meter: measured().meter, wrap: true, tracing },
  );
  exporter.reset();
  const parent = tracer.startSpan("caller");
  await context.with(trace.setSpan(context.active(), parent), () => action(limiter));
  parent.end();
  return { parent, spans: exporter.getFinishedSpans().filter(({ name }) => name !== "caller") };
}

/** Waits 5 ms for a permit, which is given back in the context of somebody else. */
async function wait(limiter: RateLimiter): Promise<unknown> {
  const held = limiter.attemptAcquire();
  const waiting = limiter.acquire();
  await context.with(ROOT_CONTEXT, async () => {
    await pause(5);
    held.dispose();
  });
  (await waiting).dispose();
  return trace.getSpan(context.active());
}

describe("a request that waits", () => {
  it("is a span of its caller, as long as it waited, and nobody's error", async () => {
    let after: unknown;
    const { parent, spans } = await spansOf(async (limiter) => {
      after = await wait(limiter);
    });
    expect(spans.length).toBe(1);
    const [span] = spans;
    expect(span?.name).toBe("acquire db");
    expect(span?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId);
    expect(span?.status.code).toBe(SpanStatusCode.UNSET);
    expect(span?.attributes).toEqual({
      "headgate.limiter.name": "db",
      "headgate.limiter.type": "concurrency",
      "headgate.permit.count": 1,
      "headgate.limiter.result": "acquired",
    });
    const ms = (time: readonly [number, number] | undefined): number =>
      Number(time?.[0]) * 1000 + Number(time?.[1]) / 1e6;
    expect(ms(span?.duration)).toBeGreaterThan(3);
    expect(Math.abs(ms(span?.endTime) - Date.now())).toBeLessThan(60_000);
    // It goes on in its own context, not in that of whoever gave the permit back.
    expect(after).toBe(parent);
  });

  it("is a span too when it is refused in the end, with the reason", async () => {
    const { spans } = await spansOf(
      async (limiter) => {
        limiter.attemptAcquire();
        await limiter.acquire();
      },
      true,
      5,
    );
    expect(
      spans.map(({ attributes, status }) => [
        attributes["headgate.limiter.result"],
        attributes["headgate.rejection.reason"],
        status.code,
      ]),
    ).toEqual([["rejected", "queue_timeout", SpanStatusCode.UNSET]]);
  });

  it("is none when it was short, when nobody records, or when tracing is off", async () => {
    expect((await spansOf(wait, { minWaitMs: 10_000 })).spans).toEqual([]);
    expect((await spansOf(wait, false)).spans).toEqual([]);
    expect((await spansOf((limiter) => context.with(ROOT_CONTEXT, () => wait(limiter)))).spans).toEqual([]);
  });

  it("is made by the tracer that is given", async () => {
    const own = new InMemorySpanExporter();
    const other = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(own)] });
    expect((await spansOf(wait, { tracer: other.getTracer("own"), minWaitMs: 0 })).spans).toEqual([]);
    expect(own.getFinishedSpans().map(({ name }) => name)).toEqual(["acquire db"]);
  });
});

it("makes no more spans after the handle has been disposed", async () => {
  const handle = instrumentRateLimiter(new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 }), {
    name: "db",
    meter: measured().meter,
    wrap: true,
    tracing: { minWaitMs: 0 },
  });
  exporter.reset();
  const parent = trace.setSpan(context.active(), tracer.startSpan("caller"));
  await context.with(parent, () => wait(handle.limiter));
  expect(exporter.getFinishedSpans().length).toBe(1);
  const held = handle.limiter.attemptAcquire();
  const waiting = context.with(parent, () => handle.limiter.acquire());
  handle.dispose();
  held.dispose();
  (await waiting).dispose();
  await context.with(parent, () => wait(handle.limiter));
  expect(exporter.getFinishedSpans().length).toBe(1);
});

describe("a tracer that throws", () => {
  it.each(["startSpan", "end", "context"] as const)(
    "in %s takes nobody's lease, and is complained about once",
    async (where) => {
      const told: string[] = [];
      const error = (message: string): void => void told.push(message);
      const quiet = (): void => {};
      diag.setLogger({ error, warn: quiet, info: quiet, debug: quiet, verbose: quiet });
      told.length = 0;
      const fail = (): never => {
        throw new Error("tracer");
      };
      const broken = {
        startSpan: where === "end" ? () => ({ end: fail }) : fail,
        startActiveSpan: fail,
      } as never;
      const behind = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 });
      const { limiter } = instrumentRateLimiter(behind, {
        name: "db",
        meter: measured().meter,
        wrap: true,
        tracing: { tracer: broken, minWaitMs: 0 },
      });
      const isRecording = where === "context" ? fail : () => true;
      const parent = { isRecording } as never;
      await context.with(trace.setSpan(context.active(), parent), async () => {
        const held = limiter.attemptAcquire();
        const waiting = [limiter.acquire(), limiter.acquire()];
        held.dispose();
        for (const lease of waiting) (await lease).dispose();
      });
      diag.disable();
      expect(behind.getStatistics()).toMatchObject({ currentAvailablePermits: 1, currentQueuedCount: 0 });
      expect(told).toEqual(["headgate: a wait cannot be traced"]);
    },
  );
});

describe("a request that does not wait", () => {
  it("is no span, granted or refused", async () => {
    const { spans } = await spansOf(async (limiter) => {
      limiter.attemptAcquire();
      limiter.attemptAcquire();
      await limiter.acquire({ maxWaitMs: 0 });
    });
    expect(spans).toEqual([]);
  });
});
