using System.Diagnostics;
using System.Globalization;
using System.Text.Json.Nodes;
using System.Threading.RateLimiting;

namespace Conformance;

/// <summary>The options of one limiter. Kinds: c(oncurrency) f(ixed) s(liding) t(oken bucket) n(one).</summary>
sealed record Spec(char Kind, int Limit, int Queue, bool Newest, double PeriodMs, int Segments, int PerPeriod, bool Auto)
{
    public bool Replenishes => Kind is 'f' or 's' or 't';
    QueueProcessingOrder Order => Newest ? QueueProcessingOrder.NewestFirst : QueueProcessingOrder.OldestFirst;

    public ConcurrencyLimiterOptions Concurrency => new() { PermitLimit = Limit, QueueLimit = Queue, QueueProcessingOrder = Order };
    public FixedWindowRateLimiterOptions Fixed => new()
    {
        PermitLimit = Limit, QueueLimit = Queue, QueueProcessingOrder = Order, AutoReplenishment = Auto,
        Window = TimeSpan.FromMilliseconds(PeriodMs),
    };
    public SlidingWindowRateLimiterOptions Sliding => new()
    {
        PermitLimit = Limit, QueueLimit = Queue, QueueProcessingOrder = Order, AutoReplenishment = Auto,
        Window = TimeSpan.FromMilliseconds(PeriodMs * Segments), SegmentsPerWindow = Segments,
    };
    public TokenBucketRateLimiterOptions Bucket => new()
    {
        TokenLimit = Limit, QueueLimit = Queue, QueueProcessingOrder = Order, AutoReplenishment = Auto,
        ReplenishmentPeriod = TimeSpan.FromMilliseconds(PeriodMs), TokensPerPeriod = PerPeriod,
    };

    public RateLimiter Make() => Kind switch
    {
        'c' => new ConcurrencyLimiter(Concurrency),
        'f' => new FixedWindowRateLimiter(Fixed),
        's' => new SlidingWindowRateLimiter(Sliding),
        't' => new TokenBucketRateLimiter(Bucket),
        _ => RateLimitPartition.GetNoLimiter(0).Factory(0),
    };

    /// <summary>The partition that the library's helpers make.</summary>
    public RateLimitPartition<int> Partition(int key) => Kind switch
    {
        'c' => RateLimitPartition.GetConcurrencyLimiter(key, _ => Concurrency),
        'f' => RateLimitPartition.GetFixedWindowLimiter(key, _ => Fixed),
        's' => RateLimitPartition.GetSlidingWindowLimiter(key, _ => Sliding),
        't' => RateLimitPartition.GetTokenBucketLimiter(key, _ => Bucket),
        _ => RateLimitPartition.GetNoLimiter(key),
    };

    public static Spec Parse(JsonNode? json)
    {
        var parts = json!.AsArray().Skip(1).Select(n => (double)n!).ToList();
        return new Spec(((string)json[0]!)[0], (int)parts[0], (int)parts[1], parts[2] == 1, parts[3], (int)parts[4], (int)parts[5], parts[6] == 1);
    }

    public JsonArray Json() => [Kind.ToString(), Limit, Queue, Newest ? 1 : 0, PeriodMs, Segments, PerPeriod, Auto ? 1 : 0];
}

/// <summary>A limiter without parts, with what the recorder knows of it.</summary>
sealed class Leaf
{
    public readonly Spec Spec;
    public readonly RateLimiter Limiter;
    public readonly int Key;
    public double LastUse = Virtual.Now;
    long? idleRaw;
    double idleMark = Virtual.Now;

    public Leaf(Spec spec, RateLimiter limiter, int key)
    {
        (Spec, Limiter, Key) = (spec, limiter, key);
        if (spec.Replenishes) Virtual.Adopt(limiter);
        if (spec.Kind != 'n') idleRaw = (long?)Virtual.Get(limiter, "_idleSince");
    }

    /// <summary>The number of requests that wait; those that have been cancelled may still count.</summary>
    public int Waiting => Spec.Kind == 'n' ? 0 : (int)Virtual.Get(Limiter, "_queue")!.GetType().GetProperty("Count")!.GetValue(Virtual.Get(Limiter, "_queue"))!;

    public double Tokens => Spec.Kind == 't' ? (double)Virtual.Get(Limiter, "_tokenCount")! : double.NaN;

    public RateLimiterStatistics? Statistics()
    {
        try { return Limiter.GetStatistics(); }
        catch (ObjectDisposedException) { return null; }
    }

    public bool CanGrant(int n) => Statistics() is { } s
        && (n == 0 ? s.CurrentAvailablePermits > 0 : s.CurrentAvailablePermits >= n && (Spec.Newest || s.CurrentQueuedCount == 0));

    /// <summary>Notes whether the library has set its idle mark; to be called after every operation.</summary>
    public void NoteIdle()
    {
        if (Spec.Kind == 'n') return;
        var raw = (long?)Virtual.Get(Limiter, "_idleSince");
        if (raw != idleRaw && raw != null) idleMark = Virtual.Now;
        idleRaw = raw;
    }

    /// <summary>Moves the idle mark to where it would be if real time were virtual.</summary>
    public void RigIdle(long realNow)
    {
        if (Spec.Kind == 'n' || idleRaw == null) return;
        idleRaw = realNow - Virtual.Ticks(Virtual.Now - idleMark);
        Virtual.Set(Limiter, "_idleSince", idleRaw);
    }
}

/// <summary>What a trace is about: some limiters, alone or put together.</summary>
abstract class World
{
    public readonly List<Leaf> Leaves = [];
    /// <summary>Keys whose factories ran during the operation.</summary>
    public readonly List<int> Made = [];
    public readonly HashSet<int> FailNext = [];

    public abstract RateLimitLease Attempt(int target, int n);
    public abstract ValueTask<RateLimitLease> Acquire(int target, int n, CancellationToken token);
    public abstract RateLimiterStatistics? Statistics(int target);
    public abstract void Dispose();
    public abstract ValueTask DisposeAsync();
    public virtual RateLimiter? Top => null;

    /// <summary>Lets time pass, and replenishes everything.</summary>
    public virtual void Tick(double ms)
    {
        Virtual.Now += ms;
        foreach (var leaf in Leaves) if (leaf.Spec.Replenishes) Virtual.Replenish(leaf.Limiter);
    }

    public string Observe()
    {
        foreach (var leaf in Leaves) leaf.NoteIdle();
        for (;;)
        {
            var start = Stopwatch.GetTimestamp();
            foreach (var leaf in Leaves) leaf.RigIdle(start);
            var seen = string.Join(';', Observed().Select(Show));
            if (Stopwatch.GetTimestamp() - start < Stopwatch.Frequency / 3000) return seen;
        }
    }

    protected virtual IEnumerable<RateLimiter> Observed() => Leaves.Select(leaf => leaf.Limiter);

    static string Show(RateLimiter limiter)
    {
        string numbers, idle;
        try { numbers = Text(limiter.GetStatistics()!); }
        catch (ObjectDisposedException) { numbers = "D"; }
        try { idle = limiter.IdleDuration is { } d ? Math.Floor(d.TotalMilliseconds).ToString(CultureInfo.InvariantCulture) : "-"; }
        catch (ObjectDisposedException) { idle = "D"; }
        return numbers + "," + idle;
    }

    public static string Text(RateLimiterStatistics s) => string.Join(',',
        s.CurrentAvailablePermits == long.MaxValue ? "max" : s.CurrentAvailablePermits.ToString(CultureInfo.InvariantCulture),
        s.CurrentQueuedCount, s.TotalFailedLeases, s.TotalSuccessfulLeases);
}

sealed class Single : World
{
    public Single(Spec spec) => Leaves.Add(new Leaf(spec, spec.Make(), 0));
    public override RateLimiter Top => Leaves[0].Limiter;
    public override RateLimitLease Attempt(int target, int n) => Top.AttemptAcquire(n);
    public override ValueTask<RateLimitLease> Acquire(int target, int n, CancellationToken token) => Top.AcquireAsync(n, token);
    public override RateLimiterStatistics? Statistics(int target) => Top.GetStatistics();
    public override void Dispose() => Top.Dispose();
    public override ValueTask DisposeAsync() => Top.DisposeAsync();
}

sealed class Chain : World
{
    readonly RateLimiter chain;

    public Chain(IEnumerable<Spec> specs)
    {
        Leaves.AddRange(specs.Select(spec => new Leaf(spec, spec.Make(), 0)));
        chain = RateLimiter.CreateChained([.. Leaves.Select(leaf => leaf.Limiter)]);
    }

    RateLimiter At(int target) => target == 0 ? chain : Leaves[target - 1].Limiter;
    public override RateLimiter Top => chain;
    public override RateLimitLease Attempt(int target, int n) => At(target).AttemptAcquire(n);
    public override ValueTask<RateLimitLease> Acquire(int target, int n, CancellationToken token) => At(target).AcquireAsync(n, token);
    public override RateLimiterStatistics? Statistics(int target) => At(target).GetStatistics();
    public override void Dispose() => chain.Dispose();
    public override ValueTask DisposeAsync() => chain.DisposeAsync();
    protected override IEnumerable<RateLimiter> Observed() => base.Observed().Prepend(chain);
}

sealed class FactoryFault : Exception;

/// <summary>Partitions by number; alone, translated from text, or as the first of a chain whose second has fewer keys.</summary>
sealed class Partitions : World
{
    readonly PartitionedRateLimiter<int> inner;
    readonly PartitionedRateLimiter<int>? second;
    readonly PartitionedRateLimiter<string>? translated;
    readonly PartitionedRateLimiter<int>? chained;
    readonly List<object> keyed = [];

    public Partitions(IReadOnlyList<Spec> specs, IReadOnlyList<Spec> secondSpecs, bool helpers, bool translate, bool leaveOpen)
    {
        inner = Create(specs, 0, helpers);
        if (secondSpecs.Count > 0)
        {
            second = Create(secondSpecs, 100, helpers);
            chained = PartitionedRateLimiter.CreateChained(inner, second);
        }
        if (translate) translated = inner.WithTranslatedKey<string>(text => int.Parse(text, CultureInfo.InvariantCulture), leaveOpen);
    }

    PartitionedRateLimiter<int> Create(IReadOnlyList<Spec> specs, int offset, bool helpers)
    {
        var limiter = PartitionedRateLimiter.Create<int, int>(resource =>
        {
            var key = resource % specs.Count;
            var spec = specs[key];
            var make = helpers ? spec.Partition(key).Factory : _ => (spec with { Auto = false }).Make();
            return RateLimitPartition.Get(key, k =>
            {
                Made.Add(k + offset);
                if (FailNext.Remove(k + offset)) throw new FactoryFault();
                var made = make(k);
                Leaves.Add(new Leaf(spec, made, k + offset));
                return made;
            });
        });
        // The library's own beat would come by real time.
        var awaitable = Virtual.Get(limiter, "_timer")!;
        ((Timer)Virtual.Get(awaitable, "_timer")!).Change(Timeout.Infinite, Timeout.Infinite);
        keyed.Add(limiter);
        return limiter;
    }

    void NoteUse(int target)
    {
        foreach (var leaf in Leaves) leaf.LastUse = leaf.Key == target ? Virtual.Now : leaf.LastUse;
    }

    static string Name(int target) => target.ToString(CultureInfo.InvariantCulture);

    public override RateLimitLease Attempt(int target, int n)
    {
        NoteUse(target);
        return translated?.AttemptAcquire(Name(target), n) ?? (chained ?? inner).AttemptAcquire(target, n);
    }

    public override ValueTask<RateLimitLease> Acquire(int target, int n, CancellationToken token)
    {
        NoteUse(target);
        return translated?.AcquireAsync(Name(target), n, token) ?? (chained ?? inner).AcquireAsync(target, n, token);
    }

    public override RateLimiterStatistics? Statistics(int target)
    {
        NoteUse(target);
        return translated != null ? translated.GetStatistics(Name(target)) : (chained ?? inner).GetStatistics(target);
    }

    public override void Dispose()
    {
        if (translated != null) translated.Dispose();
        else (chained ?? inner).Dispose();
    }

    public override ValueTask DisposeAsync() =>
        translated != null ? translated.DisposeAsync() : (chained ?? inner).DisposeAsync();

    public void DisposeInner() => inner.Dispose();

    /// <summary>Many beats, then a look for idle partitions.</summary>
    public void Sleep(double ms)
    {
        for (var t = 0.0; t < ms; t += 100)
        {
            Tick(100);
            foreach (var leaf in Leaves) leaf.NoteIdle();
        }
        Virtual.StandingStill(Leaves.Where(leaf => leaf.Spec.Replenishes).Select(leaf => leaf.Limiter).ToList(), () =>
        {
            var now = Stopwatch.GetTimestamp();
            foreach (var leaf in Leaves) leaf.RigIdle(now);
            foreach (var limiter in keyed) Beat(limiter, now);
            return 0;
        });
    }

    void Beat(object limiter, long now)
    {
        var entries = (System.Collections.IDictionary)Virtual.Get(limiter, "_limiters")!;
        foreach (System.Collections.DictionaryEntry pair in entries)
        {
            var lazy = pair.Value!;
            if (!(bool)lazy.GetType().GetProperty("IsValueCreated")!.GetValue(lazy)!) continue;
            var entry = lazy.GetType().GetProperty("Value")!.GetValue(lazy)!;
            var made = entry.GetType().GetProperty("Limiter", System.Reflection.BindingFlags.Instance | System.Reflection.BindingFlags.NonPublic | System.Reflection.BindingFlags.Public)!.GetValue(entry);
            var leaf = Leaves.Find(l => ReferenceEquals(l.Limiter, made))!;
            if (leaf.Spec.Kind == 'n') Virtual.Set(entry, "LastAccessTimestamp", now - Virtual.Ticks(Virtual.Now - leaf.LastUse));
        }
        var beat = limiter.GetType().GetMethod("Heartbeat", System.Reflection.BindingFlags.Instance | System.Reflection.BindingFlags.NonPublic)!;
        ((Task)beat.Invoke(limiter, null)!).GetAwaiter().GetResult();
    }
}
