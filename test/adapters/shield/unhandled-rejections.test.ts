import { ConcurrencyLimiter } from "headgate";
import { limiterPolicy } from "headgate/cockatiel";
import { PartitionedShield, Shield, ShieldRegistry } from "headgate/shield";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { failure, flush, gate, granted, refused, StubLimiter } from "./support.js";

const unhandled: unknown[] = [];
const note = (reason: unknown) => void unhandled.push(reason);
beforeAll(() => {
  process.on("unhandledRejection", note);
});
afterAll(() => {
  process.off("unhandledRejection", note);
});

/** Node tells of unhandled rejections when the microtasks of a turn are done. */
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
const rejects = () => Promise.reject(new Error("callback"));
const throws = () => {
  throw new Error("callback");
};
const run = (next: () => Promise<unknown>) => next();

describe("nothing is left unhandled", () => {
  it("hears of a rejection that nobody handles", async () => {
    void Promise.reject("nobody");
    await nextTurn();
    expect(unhandled.splice(0)).toEqual(["nobody"]);
  });

  it.each<[string, () => unknown]>([
    ["work that fails", () => failure(Shield.concurrencyLimit(1).execute(rejects))],
    ["work that throws", () => failure(Shield.concurrencyLimit(1).execute(throws))],
    ["an aborted signal", () => failure(Shield.empty.execute(() => 1, AbortSignal.abort()))],
    ...[rejects, throws].flatMap((hook): [string, () => unknown][] => [
      [
        `a hook that ${hook === throws ? "throws" : "rejects"}`,
        () =>
          failure(
            Shield.empty
              .useRateLimiter(new StubLimiter(() => refused()), { onRejected: hook })
              .execute(() => 1),
          ),
      ],
      [
        `a hook of a limit in shadow that ${hook === throws ? "throws" : "rejects"}`,
        () =>
          Shield.empty
            .useRateLimiter(new StubLimiter(() => refused()), { onRejected: hook, shadow: true })
            .execute(() => 1),
      ],
    ]),
    [
      "a limiter that rejects",
      () => failure(Shield.empty.useRateLimiter(new StubLimiter(rejects)).execute(() => 1)),
    ],
    [
      "a limiter that rejects after the caller has left",
      async () => {
        const answer = gate<never>();
        const leaving = new AbortController();
        const call = failure(
          Shield.empty.useRateLimiter(() => answer.promise).execute(() => 1, leaving.signal),
        );
        leaving.abort();
        answer.fail(new Error("late"));
        await call;
      },
    ],
    [
      "a lease that cannot be disposed",
      () => {
        const lease = Object.assign(granted(), { disposalError: new Error("dispose") });
        return failure(Shield.empty.useRateLimiter(new StubLimiter(() => lease)).execute(rejects));
      },
    ],
    [
      "a call that is aborted in a queue",
      async () => {
        const shield = Shield.concurrencyLimit(1, { queueLimit: 1 });
        const open = gate();
        const leaving = new AbortController();
        const calls = [shield.execute(() => open.promise), failure(shield.execute(() => 1, leaving.signal))];
        leaving.abort();
        open.open();
        await Promise.all(calls);
      },
    ],
    [
      "attempts that a layer has lost interest in",
      async () => {
        const careless = Shield.empty.use({
          async run(next) {
            void next();
            void next();
            throw new Error("time-out");
          },
        });
        await failure(careless.concurrencyLimit(1).execute(rejects));
      },
    ],
    [
      "a disposed limiter with waiters",
      async () => {
        const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
        const held = limiter.attemptAcquire();
        const call = failure(Shield.empty.useRateLimiter(limiter).execute(() => 1));
        limiter.dispose();
        held.dispose();
        await call;
      },
    ],
    [
      "partitions whose callback and disposal fail",
      async () => {
        const shields = new PartitionedShield(
          (_: string) => Shield.empty.use({ run, dispose: rejects } as never),
          {
            onEvicted: rejects,
            maxPartitions: 1,
          },
        );
        shields.get("a");
        shields.get("b");
        shields.delete("b");
        await flush();
        shields.get("c");
        await failure(shields.disposeAsync());
      },
    ],
    [
      "a registry whose disposal fails",
      async () => {
        const registry = new ShieldRegistry().add("a", Shield.empty.use({ run, dispose: rejects } as never));
        const disposal = failure(registry.disposeAsync());
        await failure(registry.disposeAsync());
        await disposal;
      },
    ],
    [
      "a policy whose listeners and hook fail",
      async () => {
        const policy = limiterPolicy(new StubLimiter(() => refused()), { onRejected: rejects });
        policy.onReject(throws);
        policy.onFailure(throws);
        await failure(policy.execute(() => 1));
      },
    ],
  ])("by %s", async (_, act) => {
    await act();
    await nextTurn();
    expect(unhandled.splice(0)).toEqual([]);
  });
});
