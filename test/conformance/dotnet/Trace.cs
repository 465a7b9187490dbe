using System.Globalization;
using System.Text.Json.Nodes;
using System.Threading.RateLimiting;

namespace Conformance;

/// <summary>
/// One trace: the options and the operations come from the seed, the rest is what the library did. A trace that is not
/// wild avoids the situations in which headgate differs on purpose and the two go different ways from then on.
/// </summary>
sealed class Trace
{
    sealed class Request
    {
        public required int Target, Permits;
        public Task<RateLimitLease>? Waiting;
        public RateLimitLease? Lease;
        public CancellationTokenSource? Source;
        public bool IsTold;
    }

    readonly int seed;
    readonly Dice dice;
    readonly Dictionary<int, Request> requests = [];
    readonly JsonArray steps = [];
    readonly JsonObject head;
    World world = null!;
    string kind = "";
    bool isGrid, isWild, isPartitioned, isDisposed, skew, isOver;
    double periodMs;
    double sinceTick;
    string lastSeen = "";

    public Trace(int seed)
    {
        this.seed = seed;
        dice = new Dice((ulong)seed);
        head = new JsonObject { ["seed"] = seed };
    }

    public string Record()
    {
        Virtual.Now = 0;
        if (dice.Upto(60) == 0) return RecordBadOptions();
        Choose();
        head["kind"] = kind;
        if (isGrid) head["grid"] = 1;
        if (isWild) head["wild"] = 1;
        head["start"] = lastSeen = world.Observe();
        var length = isWild ? dice.Between(15, 40) : dice.Between(45, 85);
        var disposeAt = dice.Chance(60) ? dice.Chance(30) ? dice.Upto(length) : length - 4 : int.MaxValue;
        if (disposeAt < length) length = disposeAt + dice.Between(2, 4);
        if (isWild && kind == "single" && !skew) Scene();
        while (steps.Count < length && !isOver)
        {
            if (steps.Count == disposeAt && !isDisposed) DisposeTop();
            else Step();
        }
        head["steps"] = steps;
        foreach (var request in requests.Values) request.Source?.Dispose();
        return head.ToJsonString();
    }

    /// <summary>Does what a script says in place of what chance would have.</summary>
    public static string RecordScript(JsonObject script)
    {
        Virtual.Now = 0;
        var trace = new Trace((int)script["seed"]!);
        foreach (var name in new[] { "name", "leaves", "kind", "grid", "original" })
            if (script[name] is { } value) trace.head[name] = value.DeepClone();
        var specs = script["leaves"]!.AsArray().Select(Spec.Parse).ToList();
        trace.kind = (string)script["kind"]!;
        trace.world = specs.Count > 1 ? new Chain(specs) : new Single(specs[0]);
        trace.head["start"] = trace.lastSeen = trace.world.Observe();
        foreach (var operation in script["steps"]!.AsArray())
        {
            var numbers = operation!.AsArray().Skip(1).Select(n => (double)n!).ToList();
            var first = numbers.Count > 0 ? (int)numbers[0] : 0;
            switch ((string)operation[0]!)
            {
                case "t": trace.Attempt(first, (int)numbers[1]); break;
                case "q": trace.Acquire(first, (int)numbers[1], (int)numbers[2]); break;
                case "c": trace.Run(new JsonArray("c", first), () => { trace.requests[first].Source!.Cancel(); return ""; }); break;
                case "d": trace.Run(new JsonArray("d", first), () => { trace.requests[first].Lease!.Dispose(); return ""; }); break;
                case "e": trace.Elapse(numbers[0]); break;
                case "r": trace.Tick(numbers[0]); break;
                case "D": trace.Run(new JsonArray("D"), () => { trace.world.Dispose(); return ""; }); break;
                default: throw new ArgumentException(operation.ToJsonString());
            }
        }
        trace.head["steps"] = trace.steps;
        return trace.head.ToJsonString();
    }

    string RecordBadOptions()
    {
        head["kind"] = "bad";
        var spec = SpecOf(dice.Pick('c', 'f', 's', 't'), 100, false);
        spec = dice.Upto(5) switch
        {
            0 => spec with { Limit = -dice.Upto(3) },
            1 => spec with { Queue = -dice.Between(1, 3) },
            2 when spec.Replenishes => spec with { PeriodMs = -dice.Upto(3) },
            3 when spec.Kind == 's' => spec with { Segments = -1, PeriodMs = -10 },
            4 when spec.Kind == 't' => spec with { PerPeriod = -dice.Upto(3) },
            _ => spec with { Limit = 0, Queue = -1 },
        };
        head["leaves"] = new JsonArray(spec.Json());
        string result;
        try { spec.Make(); result = "made"; }
        catch (Exception error) { result = Fault(error); }
        head["r"] = result;
        return head.ToJsonString();
    }

    // ---- options

    Spec SpecOf(char leafKind, double period, bool auto)
    {
        var limit = dice.Pick(1, 2, 2, 3, 3, 4, 5, 7);
        var queue = dice.Pick(0, 1, 2, 3, 3, 4, 5, 8);
        var perPeriod = leafKind == 't' && !isPartitioned && dice.Chance(10) ? dice.Between(2, limit + 2) : 1;
        var segments = leafKind == 's' ? dice.Between(1, 4) : 1;
        return new Spec(leafKind, limit, queue, dice.Chance(45), period, segments, perPeriod, auto);
    }

    void Choose()
    {
        var die = dice.Upto(100);
        isWild = dice.Chance(12);
        if (die < 20) Choose("c");
        else if (die < 36) Choose("f");
        else if (die < 52) Choose("s");
        else if (die < 67) Choose("t");
        else if (die < 82) ChooseChain();
        else ChoosePartitions();
    }

    void Choose(string only)
    {
        kind = "single";
        isGrid = only != "c" && dice.Chance(isWild && only == "t" ? 30 : 70);
        periodMs = isGrid ? dice.Pick(100, 250, 1000, 3000) : dice.Pick(97, 100, 250, 1000);
        var auto = isGrid && dice.Chance(60);
        skew = auto && only == "f" && isWild;
        var spec = SpecOf(only[0], periodMs, auto);
        if (skew) head["skew"] = 1;
        world = new Single(spec);
        head["leaves"] = new JsonArray(spec.Json());
    }

    void ChooseChain()
    {
        kind = "chain";
        isGrid = dice.Chance(75);
        periodMs = dice.Pick(100, 250, 1000);
        var auto = isGrid && dice.Chance(50);
        var specs = new List<Spec>();
        var count = dice.Between(2, 3);
        if (isWild)
        {
            while (specs.Count < count) specs.Add(SpecOf(dice.Pick('c', 'f', 's', 't'), periodMs, auto));
        }
        else
        {
            // Only the last can refuse after a window or a bucket has given: those before it give back what they gave.
            while (specs.Count < count - 1) specs.Add(SpecOf('c', periodMs, auto));
            specs.Add(SpecOf(dice.Pick('c', 'f', 's', 't'), periodMs, auto));
            if (dice.Chance(30)) specs.Add(SpecOf(dice.Pick('f', 's'), periodMs, auto) with { Limit = 1000, Queue = 0 });
        }
        world = new Chain(specs);
        head["leaves"] = new JsonArray([.. specs.Select(spec => spec.Json())]);
    }

    void ChoosePartitions()
    {
        var die = dice.Upto(10);
        kind = die < 5 ? "part" : die < 8 ? "translated" : "partchain";
        isPartitioned = true;
        // Partitions are replenished every 100 ms.
        isGrid = true;
        periodMs = 100;
        var specs = new List<Spec>();
        var secondSpecs = new List<Spec>();
        var odd = isWild && kind == "part" && dice.Chance(40);
        for (var i = dice.Between(2, 4); i > 0; i--)
        {
            var leafKind = kind == "partchain" && !isWild ? 'c' : dice.Pick('c', 'f', 's', 't', 'n');
            var period = leafKind == 't' ? 100 : odd && leafKind == 'f' ? 150 : 100 * dice.Between(1, 5);
            specs.Add(SpecOf(leafKind, period, true));
        }
        if (kind == "partchain")
            for (var i = dice.Between(1, 2); i > 0; i--) secondSpecs.Add(SpecOf(dice.Pick('c', 'f', 's', 'n'), 100, true));
        var helpers = dice.Chance(50);
        var leaveOpen = dice.Chance(50);
        world = new Partitions(specs, secondSpecs, helpers, kind == "translated", leaveOpen);
        head["leaves"] = new JsonArray([.. specs.Select(spec => spec.Json())]);
        if (secondSpecs.Count > 0) head["second"] = new JsonArray([.. secondSpecs.Select(spec => spec.Json())]);
        if (kind == "translated") head["open"] = leaveOpen ? 1 : 0;
    }

    // ---- operations

    void Step()
    {
        if (isWild && dice.Chance(10))
        {
            Cancel();
            return;
        }
        var die = dice.Upto(100);
        if (die < 26) Attempt();
        else if (die < 52) Acquire();
        else if (die < 70) DisposeLease();
        else if (die < 76) Cancel();
        else if (die < 94) PassTime();
        else if (die < 96) Rare();
        else DisposeLease();
    }

    int Target() => kind switch
    {
        "chain" => dice.Chance(12) ? dice.Between(1, world.Leaves.Count) : 0,
        "single" => 0,
        _ => dice.Upto(4),
    };

    int Count(int target)
    {
        var limit = isPartitioned || world.Leaves.Count == 0 ? 4 : target > 0 ? world.Leaves[target - 1].Spec.Limit : world.Leaves.Min(leaf => leaf.Spec.Limit);
        var die = dice.Upto(100);
        if (dice.Upto(2) == 0 && die < 2) die = 50;
        return die < 1 ? -1 : die < 2 ? (isPartitioned ? 2000 : 1) + limit : die < 12 ? 0 : die < 65 || isPartitioned && die < 90 ? 1 : dice.Between(1, Math.Max(1, isPartitioned ? 2 : limit));
    }

    void Attempt()
    {
        var target = Target();
        var n = Count(target);
        if (!WouldKeep(target, n) || MayKeep) Attempt(target, n);
    }

    void Attempt(int target, int n)
    {
        Run(new JsonArray("t", target, n), () =>
        {
            var lease = world.Attempt(target, n);
            requests[steps.Count] = new Request { Target = target, Permits = n, Lease = lease };
            return Show(lease);
        });
    }

    void Acquire()
    {
        var target = Target();
        var n = Count(target);
        if (WouldKeep(target, n) && !MayKeep || !isWild && n == 0 && HasFractions()) return;
        Acquire(target, n, dice.Upto(20) switch { < 11 => 1, 11 => 2, _ => 0 });
    }

    /// <summary>How: 0 without a token, 1 with one, 2 with one that is cancelled already.</summary>
    void Acquire(int target, int n, int how)
    {
        var request = new Request { Target = target, Permits = n, Source = how == 0 ? null : new CancellationTokenSource() };
        if (how == 2) request.Source!.Cancel();
        requests[steps.Count] = request;
        Run(new JsonArray("q", target, n, how), () =>
        {
            ValueTask<RateLimitLease> answer;
            try { answer = world.Acquire(target, n, request.Source?.Token ?? default); }
            catch (Exception error)
            {
                request.IsTold = true;
                return "!" + Fault(error);
            }
            request.Waiting = answer.AsTask();
            return null;
        }, request);
    }

    void Cancel()
    {
        // What a chain gives back to a window would let others go on.
        if (kind is "chain" or "partchain" && isWild && world.Leaves.Any(leaf => leaf.Spec.Replenishes && leaf.Waiting > 0)) return;
        var open = requests.Where(pair => pair.Value.Source is { IsCancellationRequested: false }).Select(pair => pair.Key).ToList();
        if (open.Count == 0) return;
        var waiting = open.Where(id => !requests[id].IsTold).ToList();
        var chosen = waiting.Count > 0 && dice.Chance(85) ? waiting[dice.Upto(waiting.Count)] : open[dice.Upto(open.Count)];
        if (isWild && waiting.Count > 0 && dice.Chance(60))
        {
            // The one that blocks the others.
            var target = requests[chosen].Target;
            var queue = waiting.Where(id => requests[id].Target == target).Order().ToList();
            var leaf = world.Leaves.FindLast(one => kind == "single" || one.Key == target);
            if (queue.Count > 0) chosen = leaf is { Spec.Newest: true } ? queue[^1] : queue[0];
        }
        if ((!isWild || kind is "chain" or "partchain") && !requests[chosen].IsTold && MightFree(chosen)) return;
        Run(new JsonArray("c", chosen), () => { requests[chosen].Source!.Cancel(); return ""; });
    }

    void DisposeLease()
    {
        var held = requests.Where(pair => pair.Value.Lease is not null).Select(pair => pair.Key).ToList();
        if (held.Count == 0) return;
        var fresh = held.Where(id => requests[id].Lease!.IsAcquired && !disposed.Contains(id)).ToList();
        var chosen = fresh.Count > 0 && dice.Chance(92) ? fresh[dice.Upto(fresh.Count)] : held[dice.Upto(held.Count)];
        disposed.Add(chosen);
        Run(new JsonArray("d", chosen), () => { requests[chosen].Lease!.Dispose(); return ""; });
    }

    readonly HashSet<int> disposed = [];

    void PassTime()
    {
        if (isPartitioned)
        {
            var full = world.Leaves.Find(leaf => leaf.Spec.Kind == 't' && leaf.Tokens >= leaf.Spec.Limit && leaf.Statistics() != null);
            if (full != null) Attempt(full.Key, 1);
            else if (dice.Chance(6) && world is Partitions partitions) Run(new JsonArray("z", 25_000), () => { partitions.Sleep(25_000); return ""; });
            else Tick(100);
            return;
        }
        // A full bucket in manual mode saves up the time.
        var isFull = world.Leaves.Any(leaf => leaf.Spec.Kind == 't' && leaf.Tokens >= leaf.Spec.Limit);
        if (isFull && !world.Leaves[0].Spec.Auto)
        {
            if (kind == "single" && !isDisposed) Attempt(0, 1);
            return;
        }
        if (isGrid && skew && dice.Chance(15))
        {
            // The timer comes late once, and in time again.
            Tick(periodMs * 1.3 - sinceTick);
            sinceTick = periodMs * 0.3;
            return;
        }
        var left = periodMs - sinceTick;
        var hasBucket = world.Leaves.Any(leaf => leaf.Spec.Kind == 't');
        if (dice.Chance(hasBucket ? 10 : isGrid ? 25 : 30))
        {
            if (isFull) return;
            var ms = Math.Floor(dice.Between(1, 99) * (isGrid ? left : periodMs) / 100);
            if (ms < 1 || ms >= left && isGrid) return;
            sinceTick += ms;
            Elapse(ms);
            return;
        }
        var step = isGrid ? left : dice.Chance(50) ? periodMs : Math.Ceiling(dice.Between(1, 260) * periodMs / 100);
        sinceTick = 0;
        Tick(step);
    }

    void Elapse(double ms) => Run(new JsonArray("e", ms), () => { Virtual.Now += ms; return ""; });

    void Tick(double ms) => Run(new JsonArray("r", ms), () => { world.Tick(ms); return ""; });

    /// <summary>Brings about a situation that chance seldom does; of a limiter that is alone.</summary>
    void Scene()
    {
        var spec = world.Leaves[0].Spec;
        var (limit, period) = (spec.Limit, spec.PeriodMs);
        if (spec is { Kind: 't', Auto: false } && dice.Chance(70))
        {
            switch (isGrid ? 0 : dice.Upto(3))
            {
                case 0: // Full for a while, then used.
                    for (var i = dice.Between(1, 3); i > 0; i--) Tick(period);
                    Attempt(0, Math.Max(1, limit - dice.Upto(2)));
                    Tick(period);
                    break;
                case 1: // Somebody waits for 0 permits while less than one token is there.
                    Attempt(0, limit);
                    for (var i = dice.Between(1, 2); i > 0; i--) Acquire(0, 0, 1);
                    Tick(Math.Floor(period * dice.Between(2, 8) / 10 / spec.PerPeriod));
                    break;
                default: // Tenths of tokens.
                    Attempt(0, limit);
                    if (dice.Chance(50)) Acquire(0, 1, 0);
                    for (var i = 0; i < 20; i++) Tick(period / 10);
                    break;
            }
        }
        else if (limit > 2 && spec.Queue > 1)
        {
            // One that does not fit blocks one that does, and leaves.
            var large = Math.Min(limit, Math.Max(2, spec.Queue - 1));
            if (!spec.Newest)
            {
                Attempt(0, limit - large + 1);
                Acquire(0, large, 1);
                Acquire(0, spec.Queue > large ? 1 : 0, 1);
                Run(new JsonArray("c", 1), () => { requests[1].Source!.Cancel(); return ""; });
            }
            else if (spec.Kind == 'c' && spec.Queue > large)
            {
                Attempt(0, limit - large + 1);
                Attempt(0, large - 1);
                Acquire(0, 1, 1);
                Acquire(0, large, 1);
                if (limit - large + 1 >= large) return;
                Run(new JsonArray("d", 0), () => { requests[0].Lease!.Dispose(); return ""; });
                Run(new JsonArray("c", 3), () => { requests[3].Source!.Cancel(); return ""; });
            }
        }
    }

    void Rare()
    {
        if (world.Top is ReplenishingRateLimiter top && sinceTick == 0)
        {
            var replenishing = world.Leaves.Where(leaf => leaf.Spec.Replenishes).Select(leaf => leaf.Limiter).ToList();
            Run(new JsonArray("y"), () => Virtual.StandingStill(replenishing, top.TryReplenish)
                ? "true" : "false");
        }
        else if (isPartitioned && isWild && dice.Chance(40) && world.Leaves.All(leaf => leaf.Key != 3))
        {
            world.FailNext.Add(dice.Upto(4));
            Run(new JsonArray("x", world.FailNext.Last()), () => "");
        }
        else if (isPartitioned)
        {
            var target = Target();
            Run(new JsonArray("g", target), () => world.Statistics(target) is { } s ? World.Text(s) : "none");
        }
        if (kind == "chain" && dice.Chance(10))
        {
            var leaf = dice.Upto(world.Leaves.Count);
            if (!isWild && leaf > 0) return;
            Run(new JsonArray("l", leaf), () => { world.Leaves[leaf].Limiter.Dispose(); return ""; });
        }
        if (kind == "translated" && dice.Chance(10)) Run(new JsonArray("i"), () => { ((Partitions)world).DisposeInner(); return ""; });
    }

    void DisposeTop()
    {
        isDisposed = true;
        if (dice.Chance(50)) Run(new JsonArray("D"), () => { world.Dispose(); return ""; });
        else Run(new JsonArray("A"), () => { world.DisposeAsync().AsTask().GetAwaiter().GetResult(); return ""; });
    }

    // ---- situations in which headgate goes another way

    /// <summary>Whether a chain might refuse with what a window or bucket has given before, which .NET keeps.</summary>
    bool WouldKeep(int target, int n)
    {
        if (kind != "chain" || target != 0 || n <= 0) return false;
        var gave = false;
        foreach (var leaf in world.Leaves)
        {
            if (gave && (n > leaf.Spec.Limit || !leaf.CanGrant(n))) return true;
            gave |= leaf.Spec.Replenishes;
        }
        return false;
    }

    bool MayKeep => isWild && world.Leaves.All(leaf => !leaf.Spec.Replenishes || leaf.Waiting == 0);

    /// <summary>Whether others may go when this one leaves the queue.</summary>
    bool MightFree(int chosen) => requests.Any(pair => pair.Key != chosen && pair.Value is { IsTold: false })
        && world.Leaves.Any(leaf => leaf.Statistics() is { CurrentAvailablePermits: > 0 } && leaf.Waiting > 1);

    bool HasFractions() => world.Leaves.Any(leaf => leaf.Spec is { Kind: 't', Auto: false } && leaf.Tokens < 1);

    // ---- running and writing down

    void Run(JsonArray operation, Func<string?> action, Request? request = null)
    {
        world.Made.Clear();
        if (isOver) return;
        var id = steps.Count;
        var granted = world.Leaves.Select(leaf => leaf.Statistics()?.TotalSuccessfulLeases ?? 0).ToList();
        var result = Worker.Hold(() =>
        {
            try { return action(); }
            catch (Exception error) { return Fault(error); }
        });
        var step = new JsonObject { ["o"] = operation };
        if (request?.Waiting is { } waiting)
        {
            request.IsTold = waiting.IsCompleted;
            result = waiting.IsCompleted ? Settle(request) : "w";
        }
        if (result != "") step["r"] = result;
        var settled = new JsonObject();
        foreach (var (other, waiter) in requests)
        {
            if (other == id || waiter.IsTold || waiter.Waiting is not { IsCompleted: true }) continue;
            waiter.IsTold = true;
            settled[other.ToString(CultureInfo.InvariantCulture)] = Settle(waiter);
        }
        // Where a request of a chain fails while others go on, it is up to the pool who of those comes first.
        var most = granted.Select((before, i) => (world.Leaves[i].Statistics()?.TotalSuccessfulLeases ?? 0) - before).DefaultIfEmpty().Max();
        // And where it gives back to a window that others wait for, headgate lets those go on.
        var early = kind == "chain" ? world.Leaves.SkipLast(1) : world.Leaves.Where(leaf => leaf.Key < 100);
        var mayFree = early.Any(leaf => leaf.Spec.Replenishes && leaf.Waiting > 0);
        if (kind is "chain" or "partchain" && (most > 1 || mayFree) && settled.Any(one => one.Value!.GetValue<string>()[0] != '+'))
        {
            isOver = true;
            return;
        }
        if (settled.Count > 0) step["w"] = settled;
        if (world.Made.Count > 0) step["k"] = new JsonArray([.. world.Made.Select(key => JsonValue.Create(key))]);
        var seen = world.Observe();
        if (seen != lastSeen) step["s"] = lastSeen = seen;
        var parts = new JsonArray([.. world.Leaves.Select(leaf => leaf.Tokens % 1 is var part && part > 0 ? part : 0).Select(part => JsonValue.Create(part))]);
        if (parts.Any(part => part!.GetValue<double>() > 0)) step["f"] = parts;
        steps.Add(step);
    }

    static string Settle(Request request)
    {
        var task = request.Waiting!;
        if (task.IsCanceled) return "!cancelled";
        if (task.Exception is { } error) return Fault(error.InnerException!);
        request.Lease = task.Result;
        return Show(task.Result);
    }

    static string Fault(Exception error) => "!" + error switch
    {
        ObjectDisposedException => "disposed",
        ArgumentOutOfRangeException => "range",
        ArgumentException => "argument",
        OperationCanceledException => "cancelled",
        AggregateException => "aggregate",
        FactoryFault => "factory",
        _ => error.GetType().Name,
    };

    static string Show(RateLimitLease lease) => (lease.IsAcquired ? "+" : "-") + string.Join('&', lease.MetadataNames.Select(name =>
        lease.TryGetMetadata(name, out var value)
            ? name + "=" + (value is TimeSpan time ? time.TotalMilliseconds.ToString(CultureInfo.InvariantCulture) : value)
            : name));
}
