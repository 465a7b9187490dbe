import { ConcurrencyLimiter, LimiterDisposedError } from "headgate";
import { PartitionedShield, Shield, ShieldRegistry, type ShieldStrategy } from "headgate/shield";
import { describe, expect, it } from "vitest";
import { failure, gate, granted, StubLimiter, thrown } from "./support.js";

const owned = (limiter: StubLimiter) => Shield.empty.useRateLimiter(limiter, { ownsLimiter: true });
const stub = () => new StubLimiter(() => granted());

describe("a registry of shields", () => {
  it("gives what was registered, by exact name", async () => {
    const shield = Shield.concurrencyLimit(1);
    const tenants = new PartitionedShield((_: string) => Shield.empty);
    await using registry = new ShieldRegistry()
      .add("search", shield)
      .add("", Shield.empty)
      .add("Search", Shield.empty)
      .add("tenants", tenants);
    expect(registry.get("search")).toBe(shield);
    expect(registry.get("")).toBe(Shield.empty);
    expect(registry.partitioned<string>("tenants")).toBe(tenants);
    expect([registry.has("search"), registry.has("SEARCH"), registry.tryGet("SEARCH")]).toEqual([
      true,
      false,
      undefined,
    ]);
    expect(registry.names).toEqual(["search", "", "Search", "tenants"]);
  });

  it("makes a shield when it is first asked for, once, and remembers an error", () => {
    let made = 0;
    const error = new Error("factory");
    const registry = new ShieldRegistry()
      .add("lazy", () => {
        made += 1;
        return Shield.concurrencyLimit(1);
      })
      .add("bad", () => {
        made += 1;
        throw error;
      });
    expect(made).toBe(0);
    const all = new Set(Array.from({ length: 10 }, () => registry.get("lazy")));
    expect([all.size, made]).toEqual([1, 1]);
    expect([thrown(() => registry.get("bad")), thrown(() => registry.tryGet("bad"))]).toEqual([error, error]);
    expect(made).toBe(2);
  });

  it("a function that makes a shield may ask for another one, but not for its own", () => {
    const registry: ShieldRegistry = new ShieldRegistry()
      .add("base", () => Shield.concurrencyLimit(1))
      .add("named", () => registry.get("base").withName("named"))
      .add("own", () => registry.get("own").withName("own"));
    expect(registry.get("named").describe()).toBe("named: ConcurrencyLimit(1)");
    const error = thrown(() => registry.get("own")) as Error;
    expect(error.message).toMatch(
      /^A function that makes a shield asked the registry for that very shield\.$/,
    );
    expect(thrown(() => registry.get("own"))).toBe(error);
  });

  it("says what is registered when a name is not", () => {
    const registry = new ShieldRegistry().add("search", Shield.empty);
    registry.add("tenants", new PartitionedShield((_: string) => Shield.empty));
    expect(() => registry.get("serach")).toThrow(
      'There is no shield named "serach": register it by add("serach", …). Registered: "search", "tenants".',
    );
    expect(() => new ShieldRegistry().get("x")).toThrow(/Registered: nothing\./);
    expect(() => registry.partitioned("serach")).toThrow(/^There is no shield named "serach": register it/);
    expect(() => registry.partitioned("search")).toThrow(
      /^The shield named "search" is a shield without partitions: get it by get\("search"\)\.$/,
    );
    expect(() => registry.get("tenants")).toThrow(
      /^The shield named "tenants" is a partitioned shield: get it by partitioned\("tenants"\)\.$/,
    );
  });

  it.each<[() => unknown, RegExp]>([
    [
      () => new ShieldRegistry().add("x", {} as never),
      /shield must be a Shield, a function that makes one, or a PartitionedShield/,
    ],
    [() => new ShieldRegistry().add(5 as never, Shield.empty), /name must be a string; got 5/],
    [
      () => new ShieldRegistry().add("x", Shield.empty).add("x", Shield.empty),
      /named "x" has been registered already: choose another name/,
    ],
    [
      () => new ShieldRegistry().add("x", () => ({}) as never).get("x"),
      /What the function returns must be a Shield/,
    ],
  ])("%s says what is wrong", (act, message) => {
    expect((thrown(act) as Error).message).toMatch(message);
  });

  it("disposes what it owns once, however many ways lead there", async () => {
    const limiter = stub();
    const shield = owned(limiter);
    const partitions = new PartitionedShield((_: string) => shield);
    partitions.get("a");
    const registry = new ShieldRegistry()
      .add("one", shield)
      .add("two", shield.withName("two"))
      .add("derived", () => shield.concurrencyLimit(1))
      .add("partitions", partitions);
    registry.get("derived");
    const disposal = registry.disposeAsync();
    expect(registry.disposeAsync()).toBe(disposal);
    await disposal;
    await registry[Symbol.asyncDispose]();
    expect(limiter.disposals).toBe(1);
  });

  it("leaves to the caller what is the caller's", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const registry = new ShieldRegistry().add("one", Shield.empty.useRateLimiter(limiter));
    await registry.disposeAsync();
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it("ends its shields' own limits: who runs goes on, who waits is refused, who comes later fails", async () => {
    const shield = Shield.concurrencyLimit(1, { queueLimit: 1 }).rateLimit(10, 1000);
    const registry = new ShieldRegistry().add("one", shield);
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    const b = failure(shield.execute(() => 2));
    await registry.disposeAsync();
    expect(await b).toMatchObject({ name: "ConcurrencyLimitExceededError", reason: "limiter_disposed" });
    open.open(1);
    expect(await a).toBe(1);
    expect(await failure(shield.execute(() => 3))).toBeInstanceOf(LimiterDisposedError);
  });

  it("does not make a shield only to dispose it", async () => {
    let made = 0;
    const registry = new ShieldRegistry().add("never", () => {
      made += 1;
      return Shield.empty;
    });
    await registry.disposeAsync();
    expect(made).toBe(0);
  });

  it("disposes the last first, past failures, and tells of them in one error", async () => {
    const order: string[] = [];
    const strategy = (name: string, fails: boolean): ShieldStrategy => ({
      run: (next) => next(),
      dispose() {
        order.push(name);
        if (fails) throw new Error(name);
      },
    });
    const fails = new ShieldRegistry()
      .add("a", Shield.empty.use(strategy("a1", true)).use(strategy("a2", false)))
      .add("b", Shield.empty.use(strategy("b", true)));
    const both = (await failure(fails.disposeAsync())) as AggregateError;
    expect(order).toEqual(["b", "a2", "a1"]);
    expect(both.errors.map(({ message }) => message)).toEqual(["b", "a1"]);
    const one = new ShieldRegistry().add("c", Shield.empty.use(strategy("c", true)));
    expect(await failure(one.disposeAsync())).toMatchObject({ message: "c" });
    const partitions = new PartitionedShield((_: string) => Shield.empty.use(strategy("d", true)));
    partitions.get("x");
    const many = new ShieldRegistry().add("d", partitions);
    expect(await failure(many.disposeAsync())).toMatchObject({ message: "d" });
  });

  it("waits for limiters that take their time", async () => {
    const open = gate();
    class Slow extends StubLimiter {
      protected override disposeAsyncCore(): Promise<void> {
        return open.promise;
      }
    }
    const limiter = new Slow(() => granted());
    const registry = new ShieldRegistry().add("slow", owned(limiter));
    const disposal = registry.disposeAsync();
    let isDone = false;
    void disposal.then(() => {
      isDone = true;
    });
    await Promise.resolve();
    expect(isDone).toBe(false);
    open.open();
    await disposal;
    expect(limiter.disposals).toBe(1);
  });

  it("cannot be used when it has been disposed", async () => {
    const registry = new ShieldRegistry().add("one", Shield.empty);
    await registry.disposeAsync();
    for (const use of [
      () => registry.get("one"),
      () => registry.tryGet("one"),
      () => registry.partitioned("one"),
      () => registry.add("two", Shield.empty),
    ]) {
      expect(use).toThrow(/ShieldRegistry has been disposed/);
    }
  });

  it("a shield that nobody governs disposes nothing: its owner still can", async () => {
    const limiter = stub();
    const shield = owned(limiter);
    expect(await shield.execute(() => 1)).toBe(1);
    expect(limiter.disposals).toBe(0);
    limiter.dispose();
    expect(limiter.disposals).toBe(1);
  });
});
