using System.Diagnostics;
using System.Reflection;
using System.Threading.RateLimiting;

namespace Conformance;

/// <summary>Virtual time for the library's limiters, through their private fields; in milliseconds since the trace began.</summary>
static class Virtual
{
    const BindingFlags Private = BindingFlags.Instance | BindingFlags.NonPublic | BindingFlags.Public | BindingFlags.DeclaredOnly;

    /// <summary>Far from the real time, so that a value that is not virtual shows.</summary>
    static readonly long Origin = Stopwatch.GetTimestamp() + 1_000_000L * Stopwatch.Frequency;

    public static double Now;

    public static long Ticks(double ms) => (long)Math.Round(ms * (Stopwatch.Frequency / 1000.0));

    static long NowTicks => Origin + Ticks(Now);

    public static FieldInfo Field(object o, string name) => o.GetType().GetField(name, Private)!;

    public static object? Get(object o, string name) => Field(o, name).GetValue(o);

    public static void Set(object o, string name, object? value) => Field(o, name).SetValue(o, value);

    /// <summary>Puts a new replenishing limiter into virtual time, and stops its own timer.</summary>
    public static void Adopt(RateLimiter limiter)
    {
        Set(limiter, "_lastReplenishmentTick", NowTicks);
        ((Timer?)Get(limiter, "_renewTimer"))?.Change(Timeout.Infinite, Timeout.Infinite);
        if (Field(limiter, "_getElapsedTime") is { } elapsed)
        {
            Func<long?, TimeSpan?> virtually = since =>
                since is { } s ? TimeSpan.FromTicks((long)Math.Round((NowTicks - s) * 1e7 / Stopwatch.Frequency)) : null;
            elapsed.SetValue(limiter, virtually);
        }
    }

    public static void Replenish(RateLimiter limiter)
    {
        var entry = limiter.GetType().GetMethod("ReplenishInternal", Private)!;
        entry.Invoke(limiter, [NowTicks]);
    }

    /// <summary>Lets something run that replenishes by the real clock, as if that stood still.</summary>
    public static T StandingStill<T>(IEnumerable<RateLimiter> limiters, Func<T> action)
    {
        var saved = limiters.Select(l => (l, Get(l, "_lastReplenishmentTick"), Field(l, "_tokenCount")?.GetValue(l))).ToList();
        var soon = Stopwatch.GetTimestamp() + Stopwatch.Frequency / 20;
        foreach (var (limiter, _, _) in saved) Set(limiter, "_lastReplenishmentTick", soon);
        try { return action(); }
        finally
        {
            foreach (var (limiter, tick, tokens) in saved)
            {
                Set(limiter, "_lastReplenishmentTick", tick);
                if (tokens != null) Set(limiter, "_tokenCount", tokens);
            }
        }
    }
}

/// <summary>The pool's only worker: held while an operation runs, then let run until nothing is left to do.</summary>
static class Worker
{
    public static void Check()
    {
        ThreadPool.GetMaxThreads(out var threads, out _);
        if (threads != 1) throw new InvalidOperationException("the pool must have one worker");
    }

    public static T Hold<T>(Func<T> operation)
    {
        using var held = new ManualResetEventSlim();
        using var go = new ManualResetEventSlim();
        ThreadPool.UnsafeQueueUserWorkItem(_ => { held.Set(); go.Wait(); }, null);
        held.Wait();
        try { return operation(); }
        finally
        {
            go.Set();
            for (var round = 0; round < 3 || ThreadPool.PendingWorkItemCount > 0; round++)
            {
                using var passed = new ManualResetEventSlim();
                ThreadPool.UnsafeQueueUserWorkItem(_ => passed.Set(), null);
                passed.Wait();
            }
        }
    }
}

/// <summary>The same numbers on every machine: splitmix64.</summary>
sealed class Dice(ulong seed)
{
    ulong state = seed * 0x9E3779B97F4A7C15UL + 0x1234567UL;

    ulong Next()
    {
        var z = state += 0x9E3779B97F4A7C15UL;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9UL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBUL;
        return z ^ (z >> 31);
    }

    public int Upto(int exclusive) => (int)(Next() % (ulong)exclusive);
    public int Between(int low, int high) => low + Upto(high - low + 1);
    public bool Chance(int percent) => Upto(100) < percent;
    public T Pick<T>(params T[] from) => from[Upto(from.Length)];
}
